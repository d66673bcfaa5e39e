// Several deployments under one budget: a link to the report of each, and the sums of the policies.

function addressOf(deployment) {
  return '?' + new URLSearchParams({deployment: deployment.name}) + location.hash;
}

function renderDeploymentLinks() {
  byId('deployment-links').replaceChildren(...several.map(each => make('a', {
    href: addressOf(each), 'aria-current': each === report ? 'page' : null,
    // The policy that is chosen by then stays chosen.
    onclick: event => { event.currentTarget.setAttribute('href', addressOf(each)); },
  }, each.name)));
}

function budgetUse(policy, result) {
  if (!policy.limited_by_budget) return NOTHING;
  const use = result.budget_use;
  return use?.limited_times ? `limited for ${seconds(use.limited_s)}, ${count(use.limited_times)} times` : 'never limited';
}

const DEPLOYMENT_COLUMNS = ['policy', 'deployment', 'SLO attainment', 'GPU-hours', 'GPU USD', 'failed', 'peak GPUs', 'budget'];

function deploymentRows(policy) {
  const rows = several.map(each => [each, each.results.find(result => result.policy === policy.policy)])
    .filter(([, result]) => result)
    .map(([each, result]) => [policy.policy, each.name, share(result.slo_attainment), quantity(result.gpu_hours),
      quantity(result.cost), count(result.failed), count(result.budget_use?.peak_gpus), budgetUse(policy, result)]);
  const amount = value => Number.isInteger(value) ? count(value) : quantity(value);
  const peaks = policy.resources.map(each => `peak of ${amount(each.peak)} of ${amount(each.available)} ${each.name}`);
  return [...rows, [policy.policy, 'all', share(policy.slo_attainment), quantity(policy.gpu_hours), quantity(policy.cost),
    count(policy.failed), count(policy.peak_gpus), peaks.join('; ')]];
}

function renderDeployments() {
  byId('deployments').hidden = byId('deployments-link').hidden = several.length === 0;
  if (several.length === 0) return;
  renderDeploymentLinks();
  byId('deployment-table').replaceChildren(
    make('thead', {}, make('tr', {}, ...DEPLOYMENT_COLUMNS.map((name, i) => make('th', {scope: 'col', class: i < 2 ? 'left' : ''}, name)))),
    make('tbody', {}, ...data.policies.flatMap(deploymentRows).map(row =>
      make('tr', {class: row[1] === 'all' ? 'sum' : ''}, ...row.map((cell, i) => make('td', {class: i < 2 ? 'left' : ''}, cell))))));
  byId('deployment-headline').textContent = `${runFacts()}. ${unbroken(report.headline)}`;
}
