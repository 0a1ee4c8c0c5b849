import { readFileSync } from 'node:fs';

const sysResource = 1n << 24n;

/** The lowest score that can be had here: lowering takes CAP_SYS_RESOURCE, which root in a container often lacks, and the engine beside us lacks it too. */
export function lowestOomScore(root = '/proc/self'): number {
  const capabilities = BigInt(`0x${/^CapEff:\s*([0-9a-f]+)$/m.exec(readFileSync(`${root}/status`, 'utf8'))?.[1] ?? '0'}`);
  return (capabilities & sysResource) !== 0n ? -1000 : Number(readFileSync(`${root}/oom_score_adj`, 'utf8'));
}
