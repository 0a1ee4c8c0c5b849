import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Cluster } from '../harness/cluster.ts';
import { everyCombination, Machine } from '../harness/machine.ts';
import { until } from '../harness/until.ts';
import { list, publishIn } from '../matrix/results.ts';
import { inHost, specOf, type Context, type Subject } from './support/fault-subjects.ts';

interface PluginList {
  readonly plugins: readonly { readonly name: string; readonly faults: { readonly ended: number } }[];
}

/** Synchronous code that loops or fills the heap cannot be interrupted: the process ends, and what starts it again finds its state. */
const faults = {
  loop: { code: 137, message: (name: string) => new RegExp(`plugin "${name}" has blocked the process for \\d+ s; the process ends`) },
  leak: {
    code: 134,
    message: (name: string) => new RegExp(`plugin "${name}" fills the heap of the process, which is limited to \\d+ MiB`),
  },
} as const;
/** `npm test` tests one plugin, because each case starts a cluster again. */
const chosen = everyCombination ? inHost : inHost.filter(({ name }) => name === 'scheduling-filter');

const machine = Machine.use();
const rows: Record<keyof typeof faults, (readonly string[])[]> = { loop: [], leak: [] };
let cluster: Cluster;
let switches: string;
let triggers = 0;

beforeAll(async () => {
  switches = machine.path('switches');
  await mkdir(switches, { recursive: true });
  cluster = await machine.cluster({ spec: specOf(inHost, switches), env: { NODE_OPTIONS: '--max-old-space-size=320' } });
});
afterAll(async () => {
  if (!everyCombination) return;
  const columns = ['exit code', 'last message', 'next request after the restart'];
  const tables = Object.entries(rows).map(([fault, found]) =>
    list([`plugin that ${fault}s, in the process of the cluster`, ...columns], found),
  );
  await publishIn('plugin-isolation.md', '### Loops and leaks in the process of the cluster', ...tables);
});

const contextOf = (): Context => ({ api: cluster.api, switches, round: `r${++triggers}` });

async function useAgain(subject: Subject): Promise<string> {
  const context = contextOf();
  const answer = await until(`${subject.name} gives an answer`, async () => {
    const response = await subject.trigger(context);
    return !response.startsWith('5') && response;
  });
  await subject.done?.(context);
  return answer;
}

describe.each(everyCombination ? (['loop', 'leak'] as const) : (['leak'] as const))(
  'a plugin in the process of the cluster: %s',
  (fault) => {
    it.each(chosen)('ends the process, and $name works after the restart', async (subject) => {
      const { code, message } = faults[fault];
      await writeFile(join(switches, subject.name), fault);
      // the connection ends with the process
      const request = subject.trigger(contextOf()).catch(() => undefined);
      expect(await cluster.daemon.exit, cluster.daemon.output).toBe(code);
      await request;
      const [found = ''] = message(subject.name).exec(cluster.daemon.output) ?? [];
      expect(found, cluster.daemon.output).not.toBe('');
      await rm(join(switches, subject.name));
      await cluster.up();
      expect(cluster.daemon.output).toContain(`the previous process was ended by plugin "${subject.name}": `);
      const { plugins } = await cluster.api.get<PluginList>('/oarlock/v1/plugins');
      expect(plugins.find(({ name }) => name === subject.name)?.faults.ended).toBe(1);
      const answer = await useAgain(subject);
      rows[fault].push([`\`${subject.name}\``, String(code), found.replace(/\d+ (?=s;|MiB)/, 'N '), answer]);
    });
  },
);
