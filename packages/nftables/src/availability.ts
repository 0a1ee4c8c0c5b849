import { available, unavailable, type Availability } from '@oarlock/kernel/plugin';
import { systemClock } from '@oarlock/primitives/clock';
import { runProgram } from '@oarlock/primitives/os/run-program';

/** Timeout in milliseconds: sufficient on a busy machine, and short enough not to delay the start if the kernel hangs. */
const timeoutMs = 10_000;

/** Reports whether this process can change packet rules with nftables, and the reason if it cannot. */
export async function nftAvailability(): Promise<Availability> {
  if (process.platform !== 'linux') return unavailable('nftables is a part of Linux');
  if (process.getuid?.() !== 0) return unavailable('changing packet rules requires root');
  try {
    const { exitCode, stderr, killed } = await runProgram(systemClock, 'nft', ['list', 'tables'], { timeoutMs });
    if (exitCode === 0) return available;
    return unavailable(`nft does not work on this machine: ${killed ?? stderr.split('\n')[0]}`);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    return unavailable('nft is not installed (Debian package nftables)');
  }
}
