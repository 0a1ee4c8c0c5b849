import { available, unavailable, type Availability } from '@oarlock/kernel/plugin';
import { execa } from 'execa';

/** Timeout in milliseconds: sufficient on a busy machine, and short enough not to delay the start if the kernel hangs. */
const timeoutMs = 10_000;

/** Reports whether this process can change packet rules with nftables, and the reason if it cannot. */
export async function nftAvailability(): Promise<Availability> {
  if (process.platform !== 'linux') return unavailable('nftables is a part of Linux');
  if (process.getuid?.() !== 0) return unavailable('changing packet rules requires root');
  const { failed, code, stderr, timedOut } = await execa('nft', ['list', 'tables'], { reject: false, timeout: timeoutMs });
  if (code === 'ENOENT') return unavailable('nft is not installed (Debian package nftables)');
  if (timedOut) return unavailable(`nft did not answer within ${timeoutMs / 1000} s`);
  return failed ? unavailable(`nft does not work on this machine: ${String(stderr).split('\n')[0]}`) : available;
}
