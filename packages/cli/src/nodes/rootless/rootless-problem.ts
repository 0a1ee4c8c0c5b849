import { access } from 'node:fs/promises';
import type { ClusterFile } from '@oarlock/cluster/cluster-file/cluster-file';
import { cniDirectories, missingBridgePlugins } from './bridge-plugins.ts';
import { namespaceProblem } from './node-namespaces.ts';

/** Returns why this machine cannot run a node without root of a composition; undefined if it can. */
export async function rootlessProblem({ spec }: Pick<ClusterFile, 'spec'>): Promise<string | undefined> {
  if (process.platform !== 'linux') return `${process.platform} has no namespaces`;
  if (process.geteuid?.() === 0) return 'spec.rootless is for ordinary users';
  return (await namespaceProblem()) ?? (await cniProblem(spec));
}

async function cniProblem({ network }: ClusterFile['spec']): Promise<string | undefined> {
  if (network?.use !== 'network-bridge') return undefined;
  const { binDirs } = (network.config ?? {}) as { readonly binDirs?: unknown };
  const directories = Array.isArray(binDirs) ? binDirs.map(String) : cniDirectories;
  const missing = await missingBridgePlugins(exists, directories);
  return missing.length === 0
    ? undefined
    : `network-bridge: CNI plugins ${missing.join(', ')} not found in ${directories.join(', ')} (Debian: containernetworking-plugins)`;
}

const exists = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );
