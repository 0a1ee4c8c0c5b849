import { readFileSync } from 'node:fs';

const sysResource = 1n << 24n;

/**
 * Returns the lowest OOM score adjustment that the engine may set. Lowering it requires CAP_SYS_RESOURCE, which root in a container often lacks, and
 * so does an engine in the same container.
 */
export function lowestOomScore(root = '/proc/self'): number {
  const capabilities = BigInt(`0x${/^CapEff:\s*([0-9a-f]+)$/m.exec(readFileSync(`${root}/status`, 'utf8'))?.[1] ?? '0'}`);
  return (capabilities & sysResource) !== 0n ? -1000 : Number(readFileSync(`${root}/oom_score_adj`, 'utf8'));
}
