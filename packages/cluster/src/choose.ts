import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Availability, Plugin } from '@oarlock/kernel/plugin';
import { parseClusterFile, type ClusterFile } from './cluster-file.ts';
import type { PlacementSpec } from './cluster-schema.ts';
import { loadPlugin } from './plugin-loader.ts';

const ready = (name: string) => fileURLToPath(new URL(`../../../clusters/${name}.yaml`, import.meta.url));

export interface Choice {
  readonly file: ClusterFile;
  readonly because: string;
}

async function ask({ use, config }: PlacementSpec, base: string): Promise<Availability> {
  const loaded = await loadPlugin(use, base);
  if ('fault' in loaded) return { available: false, because: loaded.fault.message };
  const plugin: Plugin = loaded.plugin;
  const parsed = plugin.config.safeParse(config);
  return parsed.success
    ? ((await plugin.probe?.(parsed.data)) ?? { available: true })
    : { available: false, because: parsed.error.message };
}

/** What a machine may lack, the runtime first: with it everything else is a matter of installing more. */
const ofTheMachine = ['runtimes', 'network', 'policy', 'proxy', 'volumes', 'dns'] as const;

/** The composition for `oarlock up` without a file: containerd where it answers and all that stands beside it can run, else processes of this host. */
export async function chooseCluster(): Promise<Choice> {
  const read = (name: string) => parseClusterFile(readFileSync(ready(name), 'utf8'), ready(name));
  const containers = read('containerd-bridge');
  for (const placement of ofTheMachine.flatMap((key) => containers.spec[key] ?? [])) {
    const answer = await ask(placement, ready('containerd-bridge'));
    if (answer.available) continue;
    return {
      file: read('embedded'),
      because: `pods run as processes of this host, because ${placement.use} is not available: ${answer.because.replace(/[.?!]$/, '')}`,
    };
  }
  return { file: containers, because: 'pods run on containerd, because its socket answers and all that its network needs is there' };
}
