import { readClusterFile } from '@oarlock/cluster/composition/read-cluster-file';
import { readyComposition } from '@oarlock/cluster/composition/ready-compositions';
import { commandName } from '../../common/command-name.ts';
import { rootlessProblem } from './rootless-problem.ts';

const name = 'rootless';

/**
 * Returns what an ordinary user may try after the default composition, in which pods share the network of the host: a node with a network of its own if this
 * machine can run it, otherwise what is missing. Empty for root and for a composition that the user named.
 */
export async function betterComposition({ file }: { readonly file?: string }): Promise<readonly string[]> {
  if (file !== undefined || process.platform !== 'linux' || process.geteuid?.() === 0) return [];
  const problem = await rootlessProblem(await readClusterFile(readyComposition(name) ?? name));
  const gain = 'Pods share the network of this host. Pods with addresses of their own, NetworkPolicies and DNS without root';
  const oarlock = commandName(import.meta.url);
  return problem === undefined
    ? [`${gain}: ${oarlock} up -f ${name} --data-dir .oarlock-${name}`]
    : [`${gain} need more (\`${oarlock} doctor\` prints how): ${problem}`];
}
