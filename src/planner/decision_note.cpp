#include "planner/decision_note.h"

namespace penstock::planner {

signals::OutlookNote note_of(const Outlook& outlook) {
  return {outlook.requests_per_s, outlook.input_tokens, outlook.output_tokens, outlook.error, outlook.naive_error};
}

signals::DecisionNote note_of(const Decision& decision, const NoteSubject& subject) {
  const PoolDecision& pool = decision.pools[subject.index];
  signals::DecisionNote note{subject.at,
                             subject.pool,
                             subject.current,
                             subject.target,
                             to_string(pool.reason),
                             sentence(pool),
                             to_string(pool.limited_by)};
  for (const Evidence& evidence : pool.evidence)
    note.evidence.push_back({evidence.name, evidence.value, evidence.unit});
  for (const Candidate& tried : decision.candidates)
    note.candidates.push_back(
        {tried.replicas, tried.slo_attainment, tried.ttft_attainment, tried.itl_attainment, tried.chosen});
  note.cause = decision.cause;
  note.diagnosis = decision.diagnosis;
  note.phase = decision.phase;
  note.next_phase_target = pool.next_phase_target;
  if (decision.outlook) note.outlook = note_of(*decision.outlook);
  return note;
}

}  // namespace penstock::planner
