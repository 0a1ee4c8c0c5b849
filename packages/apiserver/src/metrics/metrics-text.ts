import type { Registry } from 'prom-client';

/** Returns the metrics of several registries in the Prometheus text format. Samples with the same name are grouped, as the format requires. */
export async function metricsText(registries: readonly Registry[]): Promise<{ readonly contentType: string; readonly text: string }> {
  const texts = new Map<string, string[]>();
  for (const registry of new Set(registries)) {
    for (const { name } of registry.getMetricsAsArray()) {
      const text = await registry.getSingleMetricAsString(name);
      const known = texts.get(name);
      if (known === undefined) texts.set(name, [text]);
      else known.push(...text.split('\n').filter((line) => line !== '' && !line.startsWith('#')));
    }
  }
  return {
    contentType: 'text/plain; version=0.0.4; charset=utf-8',
    text: `${[...texts.values()].map((lines) => lines.join('\n')).join('\n\n')}\n`,
  };
}
