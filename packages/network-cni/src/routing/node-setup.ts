import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { NodeNetwork } from '@oarlock/spi/network';
import { familyOf } from './cidr.ts';
import { runProgram } from '@oarlock/primitives/os/run-program';

const timeoutMs = 10_000;
const tableOf = (bridge: string) => `oarlock-${bridge}`;

/**
 * Configures the node's kernel: IP forwarding, iptables for bridged packets (which Services require), and one rule that masquerades packets that
 * leave the cluster.
 */
export class NodeSetup {
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #sysctls: string;
  constructor(clock: Clock, log: Logger, sysctls = '/proc/sys') {
    this.#clock = clock;
    this.#log = log;
    this.#sysctls = sysctls;
  }

  async sysctls(families: ReadonlySet<4 | 6>): Promise<void> {
    // exists only if the module is loaded; a kernel may also have it built in or lack it
    const loaded = await this.#set('net/bridge/bridge-nf-call-iptables', '1');
    if (!loaded && (await this.#try('modprobe', ['br_netfilter']))) await this.#set('net/bridge/bridge-nf-call-iptables', '1');
    await this.#set('net/ipv4/ip_forward', '1', true);
    if (!families.has(6)) return;
    await this.#set('net/bridge/bridge-nf-call-ip6tables', '1');
    await this.#set('net/ipv6/conf/all/forwarding', '1', true);
  }

  /**
   * Replaces the node's masquerade rule in one transaction. Returns false if nftables is not available.
   *
   * One rule serves all pods. The option `ipMasq` of the bridge plugin is not used: it creates a chain for each pod, which costs several runs of
   * iptables per ADD, and stays behind if a network namespace disappears before DEL.
   */
  async masquerade(bridge: string, { podCIDRs, clusterCIDRs }: Pick<NodeNetwork, 'podCIDRs' | 'clusterCIDRs'>): Promise<boolean> {
    const table = tableOf(bridge);
    const rule = (family: 4 | 6, multicast: string) => {
      const own = podCIDRs.filter((cidr) => familyOf(cidr) === family);
      if (own.length === 0) return '';
      const ip = family === 4 ? 'ip' : 'ip6';
      const inside = [...new Set([...own, ...clusterCIDRs.filter((cidr) => familyOf(cidr) === family)])];
      const stays = [...inside, multicast].map((cidr) => `${ip} daddr != ${cidr}`).join(' ');
      return own.map((cidr) => `    ${ip} saddr ${cidr} ${stays} masquerade\n`).join('');
    };
    const script = `add table inet ${table}\ndelete table inet ${table}\ntable inet ${table} {\n  chain postrouting {\n    type nat hook postrouting priority srcnat; policy accept;\n${rule(4, '224.0.0.0/4')}${rule(6, 'ff00::/8')}  }\n}\n`;
    return this.#try('nft', ['-f', '-'], script);
  }

  async removeMasquerade(bridge: string): Promise<void> {
    await this.#try('nft', ['-f', '-'], `add table inet ${tableOf(bridge)}\ndelete table inet ${tableOf(bridge)}\n`);
  }

  /** Writes a sysctl. Returns false if the kernel does not have it. */
  async #set(name: string, value: string, required = false): Promise<boolean> {
    const path = join(this.#sysctls, name);
    try {
      if ((await readFile(path, 'utf8')).trim() !== value) await writeFile(path, value);
      return true;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (required || code !== 'ENOENT')
        this.#log.warn(
          { setting: name.replaceAll('/', '.'), code },
          'could not write a kernel setting; pods may not reach each other or other networks',
        );
      return false;
    }
  }

  async #try(program: string, args: readonly string[], stdin = ''): Promise<boolean> {
    try {
      const { exitCode, stderr, killed } = await runProgram(this.#clock, program, args, { stdin, timeoutMs });
      if (exitCode === 0) return true;
      this.#log.warn(
        { program, args: args.join(' '), reason: killed ?? stderr.trim().slice(0, 500) },
        "could not change the node's network",
      );
    } catch (error) {
      this.#log.info({ program, reason: (error as Error).message }, "a program that changes the node's network is not installed");
    }
    return false;
  }
}
