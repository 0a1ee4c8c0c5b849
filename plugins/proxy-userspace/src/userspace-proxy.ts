import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { ProxyChanges, ServicePort, ServiceProxy } from '@oarlock/spi/proxy';
import { Balancer, type Frontend } from './balancer.ts';
import { TcpListener } from './tcp-listener.ts';
import { UdpListener } from './udp-listener.ts';

interface ServedPort {
  readonly balancer: Balancer;
  readonly listeners: Map<string, TcpListener | UdpListener>;
}
interface Address {
  readonly ip: string;
  readonly port: number;
  readonly frontend: Frontend;
}

/** Proxies Services by listening on their addresses. This host must be able to bind the addresses. */
export class UserspaceProxy implements ServiceProxy {
  readonly mode = 'userspace';
  readonly #served = new Map<string, ServedPort>();
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #nodePortAddress: string;
  #reportedPrivilege = false;

  constructor({ clock, log, nodePortAddress }: { readonly clock: Clock; readonly log: Logger; readonly nodePortAddress: string }) {
    this.#clock = clock;
    this.#log = log;
    this.#nodePortAddress = nodePortAddress;
  }

  async apply({ replace, set, removed }: ProxyChanges): Promise<void> {
    const desiredKeys = new Set(set.map(({ key }) => key));
    for (const key of replace ? [...this.#served.keys()].filter((known) => !desiredKeys.has(known)) : removed) await this.#remove(key);
    // an address that one Service releases may be used by another in the same change
    for (const port of set) await this.#removePort(port);
    for (const port of set) await this.#setPort(port);
  }

  async stop(): Promise<void> {
    for (const key of this.#served.keys()) await this.#remove(key);
  }

  async #setPort(port: ServicePort): Promise<void> {
    const served = this.#served.get(port.key) ?? { balancer: new Balancer(port, this.#clock), listeners: new Map() };
    this.#served.set(port.key, served);
    served.balancer.update(port);
    for (const [name, address] of this.#addresses(port)) {
      const listener = served.listeners.get(name);
      if (listener === undefined) await this.#listen(served, { name, port, address });
      else if (listener instanceof UdpListener) listener.prune();
    }
  }

  /** Closes the listeners of a removed port, and the listeners on addresses that a port no longer has. */
  async #removePort(port: ServicePort): Promise<void> {
    const listeners = this.#served.get(port.key)?.listeners;
    if (listeners === undefined) return;
    const addresses = this.#addresses(port);
    for (const [name, listener] of listeners) {
      if (addresses.has(name)) continue;
      listeners.delete(name);
      await listener.close();
    }
  }

  #addresses({ protocol, port, clusterIPs, externalIPs, loadBalancerIPs, nodePort }: ServicePort): ReadonlyMap<string, Address> {
    const all: Address[] = [
      ...clusterIPs.map((ip): Address => ({ ip, port, frontend: 'cluster' })),
      ...externalIPs.map((ip): Address => ({ ip, port, frontend: 'external' })),
      ...loadBalancerIPs.map((ip): Address => ({ ip, port, frontend: 'load-balancer' })),
      ...(nodePort === undefined ? [] : [{ ip: this.#nodePortAddress, port: nodePort, frontend: 'external' } satisfies Address]),
    ];
    return new Map(all.map((address) => [`${protocol} ${address.frontend} ${address.ip} ${address.port}`, address]));
  }

  /** Opens a listener. A failure affects only this address; the next change of the Service retries it. */
  async #listen(
    served: ServedPort,
    {
      name,
      port,
      address: { ip, port: number, frontend },
    }: { readonly name: string; readonly port: ServicePort; readonly address: Address },
  ): Promise<void> {
    try {
      if (port.protocol === 'TCP')
        served.listeners.set(name, await TcpListener.open(ip, { port: number, balancer: served.balancer, frontend }));
      else if (port.protocol === 'UDP')
        served.listeners.set(name, await UdpListener.open(ip, { port: number, balancer: served.balancer, frontend, clock: this.#clock }));
      else this.#log.warn({ service: port.key }, 'SCTP is not supported by the userspace proxy');
    } catch (error) {
      this.#reportFailure({ service: port.key, address: `${ip}:${number}` }, error as NodeJS.ErrnoException);
    }
  }

  /** Logs a warning per address, but one for all privileged ports: the DNS Service alone has three. */
  #reportFailure(fields: Readonly<Record<string, unknown>>, { code, message }: NodeJS.ErrnoException): void {
    if (code !== 'EACCES') {
      const error = code === 'EADDRNOTAVAIL' ? 'the address is not local to this host' : message;
      this.#log.warn({ ...fields, error }, 'could not listen on a Service address');
      return;
    }
    if (this.#reportedPrivilege) return;
    this.#reportedPrivilege = true;
    this.#log.warn(
      fields,
      'this user may not listen on privileged ports, so Services have none at ports such as 53 and 80: use ports from 1024, or permit them with `sudo sysctl net.ipv4.ip_unprivileged_port_start=53` and start again',
    );
  }

  async #remove(key: string): Promise<void> {
    const served = this.#served.get(key);
    this.#served.delete(key);
    for (const listener of served?.listeners.values() ?? []) await listener.close();
  }
}
