import { metricsText } from '@oarlock/kernel/metrics-text';
import { Counter, Gauge, Registry } from 'prom-client';
import { expect, it } from 'vitest';

it('groups the samples of several registries by their name', async () => {
  const registries = ['a', 'b'].map((plugin) => {
    const registry = new Registry();
    new Counter({ name: 'calls_total', help: 'Calls.', labelNames: ['plugin'], registers: [registry] }).inc({ plugin });
    return registry;
  });
  expect((await metricsText(registries)).text).toBe(
    '# HELP calls_total Calls.\n# TYPE calls_total counter\ncalls_total{plugin="a"} 1\ncalls_total{plugin="b"} 1\n',
  );
  expect((await metricsText(registries, new Set(['other']))).text.trim()).toBe('');
});

it('collects all metrics in one turn, so that they can share a measurement', async () => {
  const registry = new Registry();
  let turn = 0;
  for (const name of ['first', 'second'])
    new Gauge({
      name,
      help: 'The turn in which the value was collected.',
      registers: [registry],
      collect() {
        queueMicrotask(() => (turn += 1));
        this.set(turn);
      },
    });
  expect((await metricsText([registry])).text).toMatch(/^first 0$[^]*^second 0$/m);
});
