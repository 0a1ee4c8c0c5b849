import { readFileSync } from 'node:fs';
import type { Availability, Plugin } from '@oarlock/kernel/plugin';
import { parseClusterFile, type ClusterFile } from './cluster-file/cluster-file.ts';
import type { PlacementSpec } from './cluster-file/cluster-schema.ts';
import { partInUse } from './composition/host-allocation.ts';
import { readyComposition } from './composition/ready-compositions.ts';
import { loadPlugin } from './plugins/plugin-loader.ts';

function fileOf(name: string): string {
  const file = readyComposition(name);
  if (file === undefined) throw new Error(`the installation of Oarlock is incomplete: clusters/${name}.yaml is missing; install it again`);
  return file;
}

export interface DefaultCluster {
  readonly file: ClusterFile;
  /** The reason for the choice: one or more sentences. */
  readonly reason: string;
}

async function probePlugin({ use, config }: PlacementSpec, base: string, besidesOthers: boolean): Promise<Availability> {
  const loaded = await loadPlugin(use, base);
  if ('fault' in loaded) return { available: false, reason: loaded.fault.message };
  const plugin: Plugin = loaded.plugin;
  const parsed = plugin.config.safeParse(config);
  if (!parsed.success) return { available: false, reason: parsed.error.message };
  const part = besidesOthers ? await partInUse({ plugin, config, path: '' }) : undefined;
  if (part !== undefined) return { available: false, reason: `another cluster of this host uses ${part}` };
  return (await plugin.probe?.(parsed.data)) ?? { available: true };
}

/** Sections that depend on the machine. The runtime is first: if it is missing, that is the reason to report. */
const machineSections = ['runtimes', 'network', 'policy', 'proxy', 'volumes', 'dns'] as const;

/**
 * Chooses the composition of `oarlock up` without a file: containerd if it and the plugins used with it are available, otherwise no daemon. For a cluster
 * that starts `besidesOthers`, what running clusters of this host use is not available.
 */
export async function selectDefaultCluster({ besidesOthers = false } = {}): Promise<DefaultCluster> {
  const read = (name: string) => parseClusterFile(readFileSync(fileOf(name), 'utf8'), fileOf(name));
  const containers = read('containerd-bridge');
  for (const placement of machineSections.flatMap((key) => containers.spec[key] ?? [])) {
    const availability = await probePlugin(placement, fileOf('containerd-bridge'), besidesOthers);
    if (availability.available) continue;
    return {
      file: read('embedded'),
      reason: `Pods run without a container daemon. The composition containerd-bridge cannot run here: ${placement.use}: ${availability.reason.replace(/\.$/, '')}.`,
    };
  }
  return { file: containers, reason: 'Pods run on containerd. (To run them without a container daemon: -f embedded.)' };
}
