import { readFile, writeFile } from 'node:fs/promises';
import type { Logger } from '@oarlock/primitives/logger';

const bridgeSwitches = ['/proc/sys/net/bridge/bridge-nf-call-iptables', '/proc/sys/net/bridge/bridge-nf-call-ip6tables'];

/** Enables the br_netfilter switches, so that packets between pods on the same bridge pass the forward hook. */
export async function passBridges(log: Logger): Promise<void> {
  for (const path of bridgeSwitches) {
    try {
      if ((await readFile(path, 'utf8')).trim() !== '1') await writeFile(path, '1');
    } catch (error) {
      log.warn(
        { error: String(error) },
        'NetworkPolicies are not enforced between pods on one bridge of this node: load the kernel module br_netfilter',
      );
      return;
    }
  }
}
