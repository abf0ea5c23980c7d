/* Bytes less their trend: what a steep diagonal hides, such as a stall or a change of the rate, stands out. */
"use strict";

const Trend = (() => {
  /* The mean rate of a panel of bytes: of its longest series, from its first point to its last. */
  function trendOf(series) {
    const longest = series.reduce((best, each) => (each.table.time.length > best.table.time.length ? each : best));
    const { time, value } = longest.table;
    const last = time.length - 1;
    const took_s = time[last] - time[0];
    return { rate: took_s > 0 ? (value[last] - value[0]) / took_s : 0, from_s: time[0], at: value[0] };
  }

  const less = (time, column, { rate, from_s, at }) => column.map((value, i) => value - at - rate * (time[i] - from_s));

  /* A step as nodes of a line, two where the next one begins: less a trend a level stretch slopes. */
  function nodes(columns) {
    const points = columns.time.length;
    const take = (column, of) => Float64Array.from({ length: Math.max(2 * points - 1, 0) }, (_, i) => column[of(i)]);
    const each = Object.entries(columns).map(([name, column]) => [name, take(column, (i) => i >> 1)]);
    return { ...Object.fromEntries(each), time: take(columns.time, (i) => (i + 1) >> 1) };
  }

  function flattened({ look, table }, trend) {
    const { levels, ...written } = table;
    const columns = look.mark === "step" ? nodes(written) : written;
    const { time, value, until } = columns;
    const lower = until ? { until: less(time, until, trend) } : {};
    return Decoder.withBlocks({ ...columns, value: less(time, value, trend), ...lower });
  }

  /* Give each series of a panel a table less the trend, again if its points have come since; return the rate. */
  function rate(series) {
    const trend = trendOf(series);
    for (const each of series) {
      const isKnown = each.flat?.of === each.table && each.flat.rate === trend.rate;
      if (!isKnown) each.flat = { of: each.table, rate: trend.rate, table: flattened(each, trend) };
    }
    return trend.rate;
  }

  return { rate };
})();
