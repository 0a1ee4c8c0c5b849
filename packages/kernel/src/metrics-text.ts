import type { Registry } from 'prom-client';

/**
 * Returns the metrics of several registries in the Prometheus text format. Samples with the same name are grouped, as the format requires.
 * @param names only the metrics with these names; all if absent
 */
export async function metricsText(
  registries: readonly Registry[],
  names?: ReadonlySet<string>,
): Promise<{ readonly contentType: string; readonly text: string }> {
  const texts = new Map<string, string[]>();
  // all values are collected at once, as by a registry itself: metrics with the same source share one measurement
  const collected = [...new Set(registries)].flatMap((registry) =>
    registry
      .getMetricsAsArray()
      .filter(({ name }) => names?.has(name) !== false)
      .map(async ({ name }) => ({ name, text: await registry.getSingleMetricAsString(name) })),
  );
  for (const { name, text } of await Promise.all(collected)) {
    const known = texts.get(name);
    if (known === undefined) texts.set(name, [text]);
    else known.push(...text.split('\n').filter((line) => line !== '' && !line.startsWith('#')));
  }
  return {
    contentType: 'text/plain; version=0.0.4; charset=utf-8',
    text: `${[...texts.values()].map((lines) => lines.join('\n')).join('\n\n')}\n`,
  };
}
