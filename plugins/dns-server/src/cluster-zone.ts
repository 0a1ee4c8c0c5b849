import { isIPv4, isIPv6 } from 'node:net';
import type { Answer } from 'dns-packet';
import type { DnsChanges, DnsRecord } from '@oarlock/spi/dns';

/**
 * The result of a lookup. `NoName` means that the name does not exist (NXDOMAIN). An empty list of records means that the name exists with records of
 * other types (NODATA).
 */
export type LookupResult =
  | { readonly answers: readonly Answer[]; readonly additionals: readonly Answer[] }
  | { readonly elsewhere: string }
  | 'NoName';

/** The version of the Kubernetes DNS schema, which is served at `dns-version.<domain>`. */
const schemaVersion = '1.1.0';
const podName = /^(?<address>[0-9a-f-]+)\.(?<namespace>[a-z0-9-]+)\.pod$/;

const isOfType = (address: string, type: 'A' | 'AAAA') => (type === 'A' ? isIPv4(address) : isIPv6(address));

interface Service {
  readonly port: number;
  readonly target: string;
}

/**
 * The records of the cluster domain (Kubernetes DNS-Based Service Discovery 1.1), keyed by lowercase names relative to the domain. Changes are
 * applied between two queries, so that a response reflects one state.
 */
export class ClusterZone {
  readonly #domain: string;
  readonly #ttl: number;
  #records = new Map<string, DnsRecord>();
  /** SRV records, keyed by names such as `_http._tcp.web.default.svc`. */
  #services = new Map<string, readonly Service[]>();
  /** The number of names at or below each name. */
  #names = new Map<string, number>();
  /** Names for reverse lookup, keyed by address. Only names with one address per family are included. */
  #reverse = new Map<string, Set<string>>();
  #turn = 0;

  constructor(domain: string, ttlSeconds: number) {
    this.#domain = domain;
    this.#ttl = ttlSeconds;
    this.#clear();
  }

  apply({ replace, set, removed }: DnsChanges): void {
    if (replace) this.#clear();
    for (const name of removed) this.#remove(name.toLowerCase());
    for (const record of set) {
      const name = record.name.toLowerCase();
      this.#remove(name);
      this.#add(name, record);
    }
  }

  /** Returns the records of `name`. `queryName` is the name as queried, because responses repeat its case. */
  find(name: string, type: string, queryName: string): LookupResult {
    if (name === 'dns-version')
      return this.#data(type === 'TXT' ? [{ type: 'TXT', name: queryName, ttl: this.#ttl, data: schemaVersion }] : []);
    const pod = podName.exec(name)?.groups;
    if (pod !== undefined) return this.#pod(pod['address'] ?? '', type, queryName);
    const record = this.#records.get(name);
    if (record?.cname !== undefined) return { elsewhere: record.cname };
    if (record !== undefined && (type === 'A' || type === 'AAAA')) return this.#data(this.#addresses(record, type, queryName));
    const services = type === 'SRV' ? this.#services.get(name) : undefined;
    if (services !== undefined) return this.#srv(services, queryName);
    return name === '' || this.#names.has(name) ? this.#data([]) : 'NoName';
  }

  /** Returns the name of an address; undefined unless the name is unique. The name of an endpoint takes precedence over the name of its Service. */
  nameOf(address: string): string | undefined {
    const names = [...(this.#reverse.get(address) ?? [])];
    return names.sort((a, b) => b.split('.').length - a.split('.').length || (a < b ? -1 : 1))[0];
  }

  full(name: string): string {
    return name === '' ? this.#domain : `${name}.${this.#domain}`;
  }

  #clear(): void {
    this.#records = new Map();
    this.#services = new Map();
    this.#names = new Map([['dns-version', 1]]);
    this.#reverse = new Map();
  }

  #add(name: string, record: DnsRecord): void {
    this.#records.set(name, record);
    this.#count(name, 1);
    const services = new Map<string, Service[]>();
    for (const { name: port, protocol, port: number, target } of record.srv ?? []) {
      const key = `_${port}._${protocol}.${name}`.toLowerCase();
      const known = services.get(key);
      if (known === undefined) services.set(key, [{ port: number, target }]);
      else known.push({ port: number, target });
    }
    for (const [key, value] of services) {
      this.#services.set(key, value);
      this.#count(key, 1);
    }
    for (const address of ownAddresses(record)) {
      const names = this.#reverse.get(address);
      if (names === undefined) this.#reverse.set(address, new Set([name]));
      else names.add(name);
    }
  }

  #remove(name: string): void {
    const record = this.#records.get(name);
    if (record === undefined) return;
    this.#records.delete(name);
    this.#count(name, -1);
    for (const { name: port, protocol } of record.srv ?? []) {
      const key = `_${port}._${protocol}.${name}`.toLowerCase();
      if (this.#services.delete(key)) this.#count(key, -1);
    }
    for (const address of ownAddresses(record)) {
      const names = this.#reverse.get(address);
      names?.delete(name);
      if (names?.size === 0) this.#reverse.delete(address);
    }
  }

  #count(name: string, change: 1 | -1): void {
    for (let at = name; at !== ''; at = at.includes('.') ? at.slice(at.indexOf('.') + 1) : '') {
      const count = (this.#names.get(at) ?? 0) + change;
      if (count === 0) this.#names.delete(at);
      else this.#names.set(at, count);
    }
  }

  /** Returns the address that a pod's DNS name encodes, whether or not the pod exists. */
  #pod(dashed: string, type: string, queryName: string): LookupResult {
    const address = isIPv4(dashed.replaceAll('-', '.')) ? dashed.replaceAll('-', '.') : dashed.replaceAll('-', ':');
    if (!isIPv4(address) && !isIPv6(address)) return 'NoName';
    return this.#data(
      (type === 'A' || type === 'AAAA') && isOfType(address, type) ? [{ type, name: queryName, ttl: this.#ttl, data: address }] : [],
    );
  }

  /** Returns the address records in a different order for each response, because many clients use only the first address. */
  #addresses(record: DnsRecord, type: 'A' | 'AAAA', queryName: string): Answer[] {
    const addresses = record.addresses.filter((address) => isOfType(address, type));
    const from = addresses.length === 0 ? 0 : this.#turn++ % addresses.length;
    return [...addresses.slice(from), ...addresses.slice(0, from)].map((data) => ({ type, name: queryName, ttl: this.#ttl, data }));
  }

  #srv(services: readonly Service[], queryName: string): LookupResult {
    const weight = Math.max(1, Math.floor(100 / services.length));
    const targets = new Set(services.map(({ target }) => target));
    return {
      answers: services.map(({ port, target }) => ({
        type: 'SRV',
        name: queryName,
        ttl: this.#ttl,
        data: { priority: 0, weight, port, target: this.full(target) },
      })),
      additionals: [...targets].flatMap((target) => {
        const record = this.#records.get(target.toLowerCase());
        return record === undefined ? [] : (['A', 'AAAA'] as const).flatMap((type) => this.#addresses(record, type, this.full(target)));
      }),
    };
  }

  #data(answers: readonly Answer[]): LookupResult {
    return { answers, additionals: [] };
  }
}

/** Returns the addresses of a name for reverse lookup; none if the name has several endpoints. */
function ownAddresses({ addresses }: DnsRecord): readonly string[] {
  return [addresses.filter((address) => isIPv4(address)), addresses.filter((address) => isIPv6(address))].flatMap((family) =>
    family.length === 1 ? family : [],
  );
}
