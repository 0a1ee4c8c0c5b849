import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import type { ProxyChanges, ServicePort, ServiceProxy } from '@oarlock/spi/proxy';
import { Balancer } from './balancer.ts';
import { TcpListener } from './tcp-listener.ts';
import { UdpListener } from './udp-listener.ts';

interface Served { readonly balancer: Balancer; readonly listeners: Map<string, TcpListener | UdpListener> }
interface Address { readonly ip: string; readonly port: number; readonly external: boolean }

/** Serves Services by listening on their addresses and passing traffic on. Addresses have to be ones this host can bind. */
export class UserspaceProxy implements ServiceProxy {
  readonly #served = new Map<string, Served>();
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #nodePortAddress: string;

  constructor({ clock, log, nodePortAddress }: { readonly clock: Clock; readonly log: Logger; readonly nodePortAddress: string }) {
    this.#clock = clock;
    this.#log = log;
    this.#nodePortAddress = nodePortAddress;
  }

  async apply({ replace, set, removed }: ProxyChanges): Promise<void> {
    const wanted = new Set(set.map(({ key }) => key));
    for (const key of replace ? [...this.#served.keys()].filter((known) => !wanted.has(known)) : removed) await this.#remove(key);
    for (const port of set) await this.#set(port);
  }

  async stop(): Promise<void> {
    for (const key of this.#served.keys()) await this.#remove(key);
  }

  async #set(port: ServicePort): Promise<void> {
    const served = this.#served.get(port.key) ?? { balancer: new Balancer(port, this.#clock), listeners: new Map() };
    this.#served.set(port.key, served);
    served.balancer.update(port);
    const addresses = new Map(this.#addresses(port).map((address) => [`${port.protocol} ${address.ip} ${address.port}`, address]));
    for (const [name, listener] of served.listeners) {
      if (addresses.has(name)) continue;
      served.listeners.delete(name);
      await listener.close();
    }
    for (const [name, address] of addresses) {
      const listener = served.listeners.get(name);
      if (listener === undefined) await this.#listen(served, name, port, address);
      else if (listener instanceof UdpListener) listener.prune();
    }
  }

  #addresses({ port, clusterIPs, externalIPs, loadBalancerIPs, nodePort }: ServicePort): Address[] {
    return [
      ...clusterIPs.map((ip) => ({ ip, port, external: false })),
      ...[...externalIPs, ...loadBalancerIPs].map((ip) => ({ ip, port, external: true })),
      ...(nodePort === undefined ? [] : [{ ip: this.#nodePortAddress, port: nodePort, external: true }]),
    ];
  }

  /** One address that cannot be served does not keep the others from being served; it is tried again when the Service changes. */
  async #listen(served: Served, name: string, port: ServicePort, { ip, port: number, external }: Address): Promise<void> {
    try {
      if (port.protocol === 'TCP') served.listeners.set(name, await TcpListener.open(ip, number, served.balancer, external));
      else if (port.protocol === 'UDP') served.listeners.set(name, await UdpListener.open(ip, number, served.balancer, external, this.#clock));
      else this.#log.warn({ service: port.key }, 'SCTP needs a proxy in the kernel: this port is not served');
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      const why = code === 'EACCES' ? 'ports below 1024 need a privilege that this process does not have' : code === 'EADDRNOTAVAIL' ? 'the address is not one of this host' : (error as Error).message;
      this.#log.warn({ service: port.key, address: `${ip}:${number}`, error: why }, 'a service address is not served');
    }
  }

  async #remove(key: string): Promise<void> {
    const served = this.#served.get(key);
    this.#served.delete(key);
    for (const listener of served?.listeners.values() ?? []) await listener.close();
  }
}
