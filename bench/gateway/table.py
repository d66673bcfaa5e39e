"""The table of issue and targets: what each gateway took, and whether ours took as little as it may."""

PEERS = ("nginx", "sglang-router", "vllm-router", "envoy")


def rows_of(figures):
    """Rows of (work, target, {gateway: text}, whether it is met or None)."""
    post, long, stream, hot = (figures.get(part, {}) for part in ("post", "long", "stream", "hot"))
    rows = []

    def add(work, seen, target, text, met=None):
        ours = seen.get("penstock")
        verdict = met(ours, seen.get("nginx")) if met and ours else None
        rows.append((work, target, {name: text(of, seen.get("nginx")) for name, of in seen.items() if text(of, seen.get("nginx"))},
                     verdict))

    def beside(key, factor, at_least=False):
        """Ours beside nginx in the same run; without nginx there is nothing to say."""
        def judge(ours, nginx):
            if nginx is None:
                return None
            return ours[key] >= nginx[key] * factor if at_least else ours[key] <= nginx[key] * factor
        return judge

    def cpu(of, _):
        """What Penstock takes of it, where it is the picker of an Envoy, stands in brackets."""
        if not of.get("cpu_us"):
            return ""
        return f"{of['cpu_us']:.1f} us" + (f" ({of['picker_cpu_us']:.1f})" if "picker_cpu_us" in of else "")

    def ratio(of, nginx):
        return f"{of['per_s']:.0f}/s" + (f", {of['per_s'] / nginx['per_s']:.2f}x" if nginx else "")

    if post:
        add("1 KB POST: CPU per request", post, "<= 20 us", cpu, lambda ours, _: ours["cpu_us"] <= 20)
        add("1 KB POST: throughput", post, ">= 0.7x nginx", ratio, beside("per_s", 0.7, at_least=True))
        add("1 KB POST: p99", post, "<= 1.2x nginx", lambda of, _: f"{of['p99_ms']:.2f} ms", beside("p99_ms", 1.2))
        add("1 KB POST: p50", post, "", lambda of, _: f"{of['p50_ms']:.2f} ms")
    if stream:
        add("1,000 streams: CPU per token", stream, "<= 13 us", cpu, lambda ours, _: ours["cpu_us"] <= 13)
        add("1,000 streams: added p99", stream, "<= 1.2x nginx", lambda of, _: f"{of['added_p99_ms']:.2f} ms",
            beside("added_p99_ms", 1.2))
        add("1,000 streams: added p50", stream, "", lambda of, _: f"{of['added_p50_ms']:.2f} ms")
        add("1,000 streams: TTFT p50", stream, "<= 1.2x nginx", lambda of, _: f"{of['ttft_p50_ms']:.2f} ms",
            beside("ttft_p50_ms", 1.2))
        add("1,000 streams: TTFT p99", stream, "", lambda of, _: f"{of['ttft_p99_ms']:.2f} ms")
        add("1,000 streams: tokens delivered", stream, "", lambda of, _: f"{of['tokens_per_s']:.0f}/s")
        add("1,000 streams: memory of each", stream, "<= 12 KiB",
            lambda of, _: f"{of['kib_per_stream']:.1f} KiB" if of["kib_per_stream"] else "",
            lambda ours, _: ours["kib_per_stream"] <= 12)
    if long:
        add("220 KB POST: throughput", long, ">= 5,000/s", ratio, lambda ours, _: ours["per_s"] >= 5000)
        add("220 KB POST: CPU per request", long, "", cpu)
    if hot:
        add("hot prefix: requests per replica", hot, "within 20 %",
            lambda of, _: "/".join(map(str, of["per_replica"])) + (f", {of['hits']:.0%} hits" if "hits" in of else ""),
            lambda ours, _: min(ours["per_replica"]) >= 0.8 * max(ours["per_replica"]) and ours["hits"] > 0.9)
    return rows


def print_table(figures):
    names = ["direct", *PEERS, "envoy+picker", "penstock"]
    rows = rows_of(figures)
    lines = [["work", *names, "target", ""]]
    for work, target, texts, met in rows:
        lines.append([work, *(texts.get(name, "-") for name in names), target,
                      "" if met is None else "met" if met else "MISSED"])
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for line in lines:
        print("  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip())
    return [{"work": work, "target": target, "met": met, **texts} for work, target, texts, met in rows]
