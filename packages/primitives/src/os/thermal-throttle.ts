import { readdirSync } from 'node:fs';

/** The directory of the kernel that contains one directory per CPU. */
const cpuRoot = '/sys/devices/system/cpu';
let known: readonly string[] | undefined;

/**
 * Returns the paths in which the machine reports interrupts of thermal sensors per CPU, from which a program infers the work of others. Upstream masks
 * them in containers since 1.34. Empty on machines without such sensors.
 */
export const thermalThrottlePaths = (): readonly string[] => (known ??= thermalThrottlePathsBelow(cpuRoot));

/** Returns the paths below the directory of the CPUs `root`. */
export function thermalThrottlePathsBelow(root: string): readonly string[] {
  return entriesOf(root)
    .filter((name) => /^cpu\d+$/.test(name))
    .sort((a, b) => Number(a.slice('cpu'.length)) - Number(b.slice('cpu'.length)))
    .flatMap((name) => (entriesOf(`${root}/${name}`).includes('thermal_throttle') ? [`${root}/${name}/thermal_throttle`] : []));
}

function entriesOf(directory: string): readonly string[] {
  try {
    return readdirSync(directory);
  } catch {
    return []; // not Linux, or /sys is not mounted
  }
}
