import { available, unavailable, type Availability } from '@oarlock/kernel/plugin';
import { execa } from 'execa';

/** A machine that is busy answers late; one whose kernel hangs does not hold a start for longer. */
const timeoutMs = 10_000;

/** Whether this process may change packet rules by nftables; if not, why. */
export async function nftAvailability(): Promise<Availability> {
  if (process.platform !== 'linux') return unavailable('nftables is a part of Linux');
  if (process.getuid?.() !== 0) return unavailable('changing packet rules needs root');
  const { failed, code, stderr, timedOut } = await execa('nft', ['list', 'tables'], { reject: false, timeout: timeoutMs });
  if (code === 'ENOENT') return unavailable('nft is not installed (Debian package nftables)');
  if (timedOut) return unavailable(`nft did not answer within ${timeoutMs / 1000} s`);
  return failed ? unavailable(`nft does not work here: ${String(stderr).split('\n')[0]}`) : available;
}
