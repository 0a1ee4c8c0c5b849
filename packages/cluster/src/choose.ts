import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Availability, Plugin } from '@oarlock/kernel/plugin';
import { parseClusterFile, type ClusterFile } from './cluster-file.ts';
import { loadPlugin } from './plugin-loader.ts';

const ready = (name: string) => fileURLToPath(new URL(`../../../clusters/${name}.yaml`, import.meta.url));

export interface Choice {
  readonly file: ClusterFile;
  readonly because: string;
}

async function ask(use: string): Promise<Availability> {
  const loaded = await loadPlugin(use, undefined);
  if ('fault' in loaded) return { available: false, because: loaded.fault.message };
  const plugin: Plugin = loaded.plugin;
  const config = plugin.config.safeParse({});
  return config.success
    ? ((await plugin.probe?.(config.data)) ?? { available: true })
    : { available: false, because: config.error.message };
}

/** The composition for `oarlock up` without a file: containerd where it answers and pods can have a network of their own, else processes of this host. */
export async function chooseCluster(): Promise<Choice> {
  const read = (name: string) => parseClusterFile(readFileSync(ready(name), 'utf8'), ready(name));
  for (const use of ['runtime-containerd', 'network-bridge']) {
    const answer = await ask(use);
    if (!answer.available)
      return { file: read('embedded'), because: `pods run as processes of this host, because ${use} is not available: ${answer.because}` };
  }
  return { file: read('containerd-bridge'), because: 'pods run on containerd, because its socket answers and the CNI plugins are there' };
}
