import { access, writeFile } from 'node:fs/promises';
import type { Clock } from '@oarlock/primitives/clock';
import { runProgram } from '@oarlock/primitives/os/run-program';
import { NetworkError } from '@oarlock/spi/network';
import type { Endpoint } from './endpoint-records.ts';

/** The gateway addresses of every pod. No interface has the IPv4 address: the host interface answers ARP requests for it (proxy_arp). */
export const gateways = { 4: '169.254.1.1', 6: 'fe80::1' } as const;
const hostMac = 'ee:ee:ee:ee:ee:ee';
/** The protocol number of pod routes in the kernel's routing table (`ip route ... proto`). */
export const podRouteProtocol = '78';
const timeoutMs = 20_000;
const familyOf = (ip: string): 4 | 6 => (ip.includes(':') ? 6 : 4);
const hostBits = { 4: 32, 6: 128 } as const;
const everywhere = { 4: '0.0.0.0/0', 6: '::/0' } as const;

/** Connects each pod with a veth pair and host routes, with two runs of iproute2 per pod. */
export class DataPlane {
  readonly #clock: Clock;
  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Creates the veth pair, addresses and routes of a pod. After an error, the caller reverts the changes with `disconnect`.
   * @throws NetworkError if a command fails
   */
  async connect({ netns, ifName, hostInterface: host, ips }: Endpoint, mtu: number): Promise<void> {
    const six = ips.some((ip) => familyOf(ip) === 6);
    // Docker disables IPv6 in its namespaces
    if (six)
      await this.#run('nsenter', [
        `--net=${netns}`,
        'sysctl',
        '-qw',
        'net.ipv6.conf.all.disable_ipv6=0',
        'net.ipv6.conf.default.accept_dad=0',
      ]);
    const inside = ips.flatMap((ip) => {
      const family = familyOf(ip);
      const gateway = gateways[family];
      return [
        `addr add ${ip}/${hostBits[family]} dev ${ifName}${family === 6 ? ' nodad' : ''}`,
        `route add ${gateway}/${hostBits[family]} dev ${ifName}${family === 4 ? ' scope link' : ''}`,
        `route add ${everywhere[family]} via ${gateway} dev ${ifName}`,
        // avoids ARP before the first packet, and works if the node has no route to the gateway address
        `neigh replace ${gateway} lladdr ${hostMac} dev ${ifName} nud permanent`,
      ];
    });
    await this.#batch(
      [
        `link add name ${ifName} mtu ${mtu} type veth peer name ${host} mtu ${mtu} address ${hostMac} netns /proc/${process.pid}/ns/net`,
        'link set lo up',
        `link set ${ifName} up`,
        ...inside,
      ],
      netns,
    );
    await Promise.all([
      this.#set(`ipv4/conf/${host}/proxy_arp`, '1'),
      this.#set(`ipv4/neigh/${host}/proxy_delay`, '0'),
      // drops packets from addresses that are not the pod's
      this.#set(`ipv4/conf/${host}/rp_filter`, '1'),
      this.#guardIPv6(host, six),
    ]);
    await this.#batch([
      `link set ${host} up`,
      ...(six ? [`addr add ${gateways[6]}/64 dev ${host} nodad`] : []),
      ...ips.map(
        (ip) =>
          `route replace ${ip}/${hostBits[familyOf(ip)]} dev ${host}${familyOf(ip) === 4 ? ' scope link' : ''} proto ${podRouteProtocol}`,
      ),
    ]);
  }

  /** Deletes the veth pair of a pod, even while a process still uses the network namespace. */
  async disconnect(host: string): Promise<void> {
    if (!(await this.has(host))) return;
    const { exitCode, stderr, killed } = await this.#ip(['link', 'del', 'dev', host]);
    if (exitCode !== 0 && (await this.has(host))) throw failed(`ip link del ${host}`, killed ?? stderr);
  }

  /** Verifies the interface, addresses and routes of a pod. @throws NetworkError `Broken` with the first difference */
  async check({ netns, ifName, hostInterface: host, ips }: Endpoint): Promise<void> {
    if (!(await this.has(host))) throw new NetworkError('Broken', `the node has no interface ${host}`);
    const [routes, addresses] = await Promise.all([
      Promise.all((['-4', '-6'] as const).map((family) => this.#json<{ dst: string }>('ip', ['-j', family, 'route', 'show', 'dev', host]))),
      this.#json<{ addr_info?: readonly { local?: string }[] }>('nsenter', [`--net=${netns}`, 'ip', '-j', 'addr', 'show', 'dev', ifName]),
    ]);
    const known = new Set(routes.flat().map(({ dst }) => dst));
    const assigned = new Set(addresses.flatMap(({ addr_info: all = [] }) => all.map(({ local }) => local)));
    for (const ip of ips) {
      if (!known.has(ip)) throw new NetworkError('Broken', `the node has no route to ${ip} by ${host}`);
      if (!assigned.has(ip)) throw new NetworkError('Broken', `${ifName} in ${netns} does not have ${ip}`);
    }
  }

  /**
   * Returns true if the interface exists in this process's network namespace. Reads /proc/sys, because /sys may belong to another
   * namespace.
   */
  has(link: string): Promise<boolean> {
    return access(`/proc/sys/net/ipv4/conf/${link}`).then(
      () => true,
      () => false,
    );
  }

  async #json<T>(program: string, args: readonly string[]): Promise<readonly T[]> {
    const { exitCode, stdout, stderr, killed } = await runProgram(this.#clock, program, args, { timeoutMs });
    if (exitCode !== 0) throw new NetworkError('Broken', `${program} ${args.join(' ')}: ${killed ?? stderr.trim().slice(0, 300)}`);
    return stdout.trim() === '' ? [] : (JSON.parse(stdout) as readonly T[]);
  }
  /** Disables IPv6 on the host interface of a pod without an IPv6 address; otherwise the pod's router advertisements and redirects have no effect. */
  async #guardIPv6(host: string, six: boolean): Promise<void> {
    const settings = six ? { accept_ra: '0', accept_redirects: '0' } : { disable_ipv6: '1' };
    for (const [name, value] of Object.entries(settings)) {
      await this.#set(`ipv6/conf/${host}/${name}`, value).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== 'ENOENT') throw error; // a kernel without IPv6
      });
    }
  }
  async #set(name: string, value: string): Promise<void> {
    await writeFile(`/proc/sys/net/${name}`, value);
  }
  #ip(args: readonly string[]) {
    return runProgram(this.#clock, 'ip', args, { timeoutMs });
  }
  async #run(program: string, args: readonly string[]): Promise<void> {
    const { exitCode, stderr, killed } = await runProgram(this.#clock, program, args, { timeoutMs });
    if (exitCode !== 0) throw failed(`${program} ${args.join(' ')}`, killed ?? stderr);
  }
  async #batch(lines: readonly string[], netns?: string): Promise<void> {
    const [program, args] = netns === undefined ? ['ip', []] : ['nsenter', [`--net=${netns}`, 'ip']];
    const stdin = `${lines.join('\n')}\n`;
    const { exitCode, stderr, killed } = await runProgram(this.#clock, program, [...args, '-batch', '-'], { stdin, timeoutMs });
    if (exitCode !== 0) throw failed(lines[Number(/-:(\d+)/.exec(stderr)?.[1] ?? 1) - 1] ?? 'ip -batch', killed ?? stderr);
  }
}

const failed = (what: string, why: string) => new NetworkError('PluginFailed', `${what}: ${why.trim().slice(0, 500)}`);
