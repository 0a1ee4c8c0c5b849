import { isIP } from 'node:net';
import { networkInterfaces } from 'node:os';
import { randomInt } from 'node:crypto';
import { nodes } from '@oarlock/api/resources';
import type { Node } from '@oarlock/api/types/core-v1';
import { optional } from '@oarlock/kernel/slot';
import { Informers, type Informer } from '@oarlock/spi/client';
import { Cluster } from '@oarlock/spi/cluster';
import { Dns } from '@oarlock/spi/dns';
import { blockListOf } from '@oarlock/api/net/block-list';
import { parseCIDR } from '@oarlock/api/net/cidr';
import { Counter, type Registry } from 'prom-client';
import { z } from 'zod';
import { ClusterZone } from './cluster-zone.ts';
import { DnsListener } from './dns-listener.ts';
import { Forwarder, type Upstream } from './forwarder.ts';
import { systemUpstreams, upstreamOf } from './resolv-conf.ts';
import { Responder } from './responder.ts';

const range = z.string().refine((text) => parseCIDR(text) !== undefined, 'an address range such as 10.0.0.0/8');

const config = z.strictObject({
  /** The address to listen on; by default the machine's first non-loopback address. */
  address: z
    .string()
    .refine((text) => isIP(text) !== 0, 'an IP address')
    .optional(),
  /** The port to listen on; 0 selects a free port. Pods always use port 53 of the DNS Service. */
  port: z.number().int().min(0).max(65_535).default(0),
  /** The upstream servers for names outside the cluster; by default the servers of /etc/resolv.conf. */
  upstreams: z
    .array(z.string().refine((text) => upstreamOf(text) !== undefined, 'an address such as 10.0.0.2 or 10.0.0.2:5353'))
    .max(8)
    .optional(),
  /** The upstream servers for specific domains: `{ "corp.example": ["10.1.0.53"] }`. */
  stubDomains: z
    .record(
      z.string().regex(/^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/, 'a domain in lower case'),
      z
        .array(z.string().refine((text) => upstreamOf(text) !== undefined, 'an address such as 10.0.0.2 or 10.0.0.2:5353'))
        .min(1)
        .max(8),
    )
    .default({}),
  /** The address ranges of clients that are accepted in addition to this machine, pods and Services. */
  clients: z.array(range).max(64).default([]),
  ttlSeconds: z.number().int().min(0).max(3600).default(5),
  cachedAnswers: z.number().int().min(0).max(1_000_000).default(10_000),
  cacheSeconds: z.number().int().min(0).max(3600).default(30),
  upstreamTimeoutMs: z.number().int().min(100).max(30_000).default(2_000),
});

const maxConcurrentQuestions = 1000;
/** A decoded response takes some ten times its size on the wire. */
const maxCachedBytes = 8 * 1024 * 1024;

/** A DNS server that runs in this process. It needs no image and no pod, so it answers before any pod runs. */
export default Dns.plugin({
  id: 'dns-server',
  config,
  needs: { facts: Cluster, informers: optional(Informers) },
  create({ config: settings, facts, informers }, { clock, log, metrics }) {
    const nodeAddresses = informers && addressesOf(informers.forResource(nodes));
    const address = settings.address ?? machineAddress();
    const zone = new ClusterZone(facts.domain, settings.ttlSeconds);
    const upstreams: Upstream[] = [];
    const forwarder = new Forwarder({
      upstreams,
      stubDomains: stubDomainsOf(settings.stubDomains),
      clock,
      timeoutMs: settings.upstreamTimeoutMs,
      cached: settings.cachedAnswers,
      cachedBytes: maxCachedBytes,
      longestMs: settings.cacheSeconds * 1000,
      maxConcurrent: maxConcurrentQuestions,
      randomId: () => randomInt(0x1_0000),
    });
    const ownRanges = blockListOf([...facts.podCIDRs, ...facts.serviceCIDRs]);
    const rejects = rejectCounters(metrics);
    const responder = new Responder({
      zone,
      domain: facts.domain,
      ttlSeconds: settings.ttlSeconds,
      forwarder,
      ownRanges,
      onFailure: (name, error) => log.debug({ name, err: error }, 'a query failed'),
      onRejected: () => rejects.queries.inc(),
    });
    const listener = new DnsListener({
      address,
      port: settings.port,
      clients: blockListOf([...facts.podCIDRs, ...facts.serviceCIDRs, ...settings.clients, ...machineRanges()]),
      isNode: (from) => nodeAddresses?.has(from) === true,
      responder,
      onRejectedConnection: () => rejects.connections.inc(),
      log,
    });
    return {
      address,
      clusterDomain: facts.domain,
      get port() {
        return listener.port;
      },
      async start() {
        const found = settings.upstreams?.flatMap((text) => upstreamOf(text) ?? []) ?? (await systemUpstreams());
        // the server must not forward to itself
        upstreams.push(...found.filter(({ host, port }) => host !== facts.dnsServiceIP && (host !== address || port !== settings.port)));
        await listener.start();
        log.info({ address, port: listener.port, upstreams: upstreams.map(({ host }) => host) }, 'cluster DNS is listening');
      },
      stop() {
        forwarder.stop();
        return listener.stop();
      },
      apply: (changes) => {
        zone.apply(changes);
        return Promise.resolve();
      },
    };
  },
});

const stubDomainsOf = (configured: Readonly<Record<string, readonly string[]>>): ReadonlyMap<string, readonly Upstream[]> =>
  new Map(Object.entries(configured).map(([domain, servers]) => [domain, servers.flatMap((text) => upstreamOf(text) ?? [])]));

function rejectCounters(metrics: Registry): { readonly queries: Counter; readonly connections: Counter } {
  return {
    queries: new Counter({
      name: 'dns_server_forward_max_concurrent_rejects_total',
      help: 'Queries that were rejected because the client had its share of the concurrent queries to upstream servers.',
      registers: [metrics],
    }),
    connections: new Counter({
      name: 'dns_server_tcp_connection_rejects_total',
      help: 'TCP connections that were reset because the client had its share of the connections, or all were in use.',
      registers: [metrics],
    }),
  };
}

/** Returns the set of all node addresses, which the informer keeps current. */
function addressesOf(informer: Informer<Node>): ReadonlySet<string> {
  const known = new Set<string>();
  const each = (node: Node, change: (address: string) => unknown) => {
    for (const { type, address } of node.status?.addresses ?? []) if (type === 'InternalIP') change(address);
  };
  const add = (node: Node) => each(node, (address) => known.add(address));
  const remove = (node: Node) => each(node, (address) => known.delete(address));
  informer.addEventHandler({
    onAdd: add,
    onDelete: remove,
    onUpdate: (node, old) => {
      remove(old);
      add(node);
    },
  });
  return known;
}

function machineAddress(): string {
  const own = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  const outside = own.filter(({ internal }) => !internal);
  // pods of a machine without a network can reach an address that was assigned to `lo`
  const able = outside.length > 0 ? outside : own.filter(({ address }) => !/^(127\.|::1$)/.test(address));
  return (able.find(({ family }) => family === 'IPv4') ?? able[0])?.address ?? '127.0.0.1';
}

function machineRanges(): readonly string[] {
  const own = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  return ['127.0.0.0/8', '::1/128', ...own.map(({ address, family }) => `${address}/${family === 'IPv6' ? 128 : 32}`)];
}
