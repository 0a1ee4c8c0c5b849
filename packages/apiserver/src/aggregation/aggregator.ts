import { isObject } from '@oarlock/api/json/json';
import { apiServices, endpointSlices } from '@oarlock/api/resources';
import type { APIService } from '@oarlock/api/types/apiregistration-v1';
import type { EndpointSlice } from '@oarlock/api/types/discovery-v1';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { Identity } from '@oarlock/spi/authn';
import { checkSubjectAlternativeNames } from '@oarlock/primitives/net/keep-alive-connection';
import type { Registry } from 'prom-client';
import { LoopbackInformer } from '../controllers/loopback-informer.ts';
import type { Exchange, UpgradeRequest } from '../http/exchange.ts';
import type { AggregatedDocument } from '../endpoints/openapi/aggregated-documents.ts';
import type { Pipeline } from '../pipeline/pipeline.ts';
import { requestHeaders } from './request-header.ts';
import { AvailabilityMetrics } from './availability-metrics.ts';
import { AvailabilityController } from './availability-controller.ts';
import type { ProxyClientCertificate } from '../proxy/proxy-client-certificate.ts';
import type { AggregatedApi, AggregatedApis } from '../endpoints/discovery/aggregated-groups.ts';
import { RemoteRequests, serviceUnavailable } from './remote-requests.ts';
import type { ProxyTarget, ProxyTls, ReverseProxy } from '../proxy/reverse-proxy.ts';
import type { RequestHandler } from '../endpoints/request/response.ts';
import type { Remote } from './remote.ts';

export interface AggregatorOptions {
  readonly pipeline: RequestHandler & Pick<Pipeline, 'resolveService'>;
  readonly proxy: ReverseProxy;
  /** The client certificate with which this API server authenticates as front proxy at extension API servers. */
  readonly frontProxy: ProxyClientCertificate;
  readonly clock: Clock;
  readonly log: Logger;
  readonly registry: Registry;
  /** Whether requests carry the UID of the user; true by default. */
  readonly sendsUid?: boolean;
}

/** The time for which OpenAPI documents of extension API servers are cached, in milliseconds. */
const documentsMs = 60_000;
/** The user of requests that the aggregator makes itself. */
const aggregatorIdentity: Identity = { name: 'system:kube-aggregator', groups: ['system:masters'] };

/** A request that is proxied to an extension API server. */
export interface AggregatedRequest {
  readonly exchange: Exchange;
  readonly identity: Identity;
  readonly upgrade: UpgradeRequest | undefined;
}

/** Proxies requests for the API groups of extension API servers, with the identity of the caller (kube-aggregator upstream). */
export class Aggregator {
  readonly #options: AggregatorOptions;
  readonly #services: LoopbackInformer<APIService>;
  /** The EndpointSlices of extension API servers. Started with the first APIService that names a Service. */
  readonly #endpoints: LoopbackInformer<EndpointSlice>;
  readonly #availability: AvailabilityController;
  /** Sends requests of loopback clients to extension API servers. */
  readonly requests: RemoteRequests;
  readonly #listeners: (() => void)[] = [];
  readonly #stop = new AbortController();
  #documents:
    | { readonly groups: AggregatedApis; readonly at: number; readonly documents: Promise<readonly AggregatedDocument[]> }
    | undefined;
  #endpointsStarted = false;
  #remotes = new Map<string, Remote>();
  #groups: AggregatedApis = [];
  #tlsByService = new WeakMap<APIService, Promise<ProxyTls>>();

  constructor(options: AggregatorOptions) {
    this.#options = options;
    this.#services = new LoopbackInformer(apiServices, { ...options, onChange: () => this.#updateRemotes() });
    this.#endpoints = new LoopbackInformer(endpointSlices, { ...options, onChange: () => this.#availability.probeSoon() });
    this.#availability = new AvailabilityController({
      ...options,
      metrics: new AvailabilityMetrics(options.registry),
      target: (service, path) => this.#target(service, path),
      onDiscovery: () => this.#rebuildGroups(),
    });
    this.requests = new RemoteRequests({
      sendsUid: options.sendsUid,
      proxy: options.proxy,
      stop: this.#stop.signal,
      target: async ({ service }, path, headers) =>
        this.#availability.isAvailable(service) ? this.#target(service, path, headers) : undefined,
    });
  }

  /** Starts to watch APIServices. Resolves when all APIServices have been read; their availability is probed afterwards. */
  start(): Promise<void> {
    return this.#services.start();
  }

  async stop(): Promise<void> {
    this.#stop.abort(new Error('the API server is stopping'));
    await Promise.all([this.#services.stop(), this.#endpoints.stop()]);
    await this.#availability.stop();
  }

  /** Adds a listener that is called for every change of an APIService. */
  addServicesListener(listener: () => void): void {
    this.#listeners.push(listener);
  }
  /** All APIServices, by name. */
  get services(): ReadonlyMap<string, APIService> {
    return this.#services.objects;
  }
  /** The API groups of extension API servers, for discovery. A new array after each change. */
  get groups(): AggregatedApis {
    return this.#groups;
  }
  /** True if no API group is served by an extension API server. */
  get isEmpty(): boolean {
    return this.#remotes.size === 0;
  }

  /** Returns the extension API server that serves a path; undefined if this API server serves the path. */
  find(segments: readonly string[]): Remote | undefined {
    return this.#remotes.size === 0 || segments[0] !== 'apis' || segments.length < 3
      ? undefined
      : this.#remotes.get(`${segments[1]}/${segments[2]}`);
  }

  /** Returns the extension API server that serves a group version; undefined if this API server serves the group version. */
  findGroup(group: string, version: string): Remote | undefined {
    return this.#remotes.size === 0 ? undefined : this.#remotes.get(`${group}/${version}`);
  }

  /** Returns the extension API server of an OpenAPI v3 document such as `/openapi/v3/apis/GROUP/VERSION`; undefined for any other path. */
  findDocument(path: string): Remote | undefined {
    if (this.#remotes.size === 0 || !path.startsWith('/openapi/v3/apis/')) return undefined;
    return this.#remotes.get(path.slice('/openapi/v3/apis/'.length));
  }

  /** Returns the OpenAPI v2 documents of extension API servers, cached for `documentsMs`. Servers that do not respond are omitted. */
  documents(): Promise<readonly AggregatedDocument[]> {
    const now = this.#options.clock.monotonic();
    const groups = this.#groups;
    if (this.#documents === undefined || this.#documents.groups !== groups || now - this.#documents.at > documentsMs)
      this.#documents = { groups, at: now, documents: this.#readDocuments() };
    return this.#documents.documents;
  }

  async #readDocuments(): Promise<readonly AggregatedDocument[]> {
    const servers = new Map<string, Remote[]>();
    for (const remote of this.#remotes.values()) {
      const { namespace = '', name = '', port = 443 } = remote.service.spec?.service ?? {};
      const key = `${namespace}/${name}:${port}`;
      servers.set(key, [...(servers.get(key) ?? []), remote]);
    }
    const found = await Promise.all(
      [...servers.values()].map(async (remotes): Promise<readonly AggregatedDocument[]> => {
        try {
          const document = await this.read(remotes[0] as Remote, '/openapi/v2', aggregatorIdentity);
          return isObject(document) ? [{ groups: remotes.map(({ group }) => group), document }] : [];
        } catch (error) {
          this.#options.log.debug({ group: remotes[0]?.group, error: String(error) }, 'an extension API server has no OpenAPI v2 document');
          return [];
        }
      }),
    );
    return found.flat();
  }

  /** Forwards an authorized request to an extension API server. @throws StatusError `ServiceUnavailable` if the server cannot be reached */
  async serve({ service }: Remote, { exchange, identity, upgrade }: AggregatedRequest): Promise<void> {
    if (!this.#availability.isAvailable(service)) throw serviceUnavailable();
    const target = await this.#target(
      service,
      exchange.target,
      requestHeaders(exchange.headers, identity, { sendsUid: this.#options.sendsUid }),
    );
    if (target === undefined) throw serviceUnavailable();
    if (upgrade === undefined) await this.#options.proxy.forward(target, exchange);
    else await this.#options.proxy.upgrade(target, exchange, upgrade);
  }

  /** Returns the body of an authorized GET of a loopback client. @throws StatusError as `RemoteRequests.request` does */
  async read(remote: Remote, path: string, identity: Identity): Promise<unknown> {
    return (await this.requests.request(remote, { method: 'GET', path, identity })).value;
  }

  /** Returns a ready endpoint of the APIService's Service; undefined if there is none. */
  async #target(service: APIService, path: string, headers: ProxyTarget['headers'] = {}): Promise<ProxyTarget | undefined> {
    const { name = '', namespace = '', port = 443 } = service.spec?.service ?? {};
    const found = this.#options.pipeline.resolveService(namespace, name, port);
    if (found.outcome !== 'found') return undefined;
    const { host, port: at } = found;
    return {
      scheme: 'https',
      host,
      port: at,
      allowLoopback: true,
      path,
      tls: await this.#tls(service),
      headers: { ...headers, host: `${name}.${namespace}.svc` },
    };
  }

  /** Returns the certificates of both sides. Returns the same object until a certificate changes, so that connections are reused. */
  async #tls(service: APIService): Promise<ProxyTls> {
    const own = await this.#options.frontProxy.tls();
    let tls = this.#tlsByService.get(service);
    if (tls === undefined || (await tls).cert !== own.cert) {
      const { caBundle, insecureSkipTLSVerify, service: reference } = service.spec ?? {};
      const created: ProxyTls = {
        ...own,
        servername: `${reference?.name ?? ''}.${reference?.namespace ?? ''}.svc`,
        checkServerIdentity: checkSubjectAlternativeNames,
        ...(insecureSkipTLSVerify === true && { rejectUnauthorized: false }),
        ...(caBundle && { ca: Buffer.from(caBundle, 'base64') }),
      };
      tls = Promise.resolve(created);
      this.#tlsByService.set(service, tls);
    }
    return tls;
  }

  #updateRemotes(): void {
    const remotes = new Map<string, Remote>();
    for (const service of this.#services.objects.values()) {
      const { group = '', version = '', service: reference } = service.spec ?? {};
      if (reference !== undefined && group !== '') {
        const before = this.#remotes.get(`${group}/${version}`);
        // a change of the status does not close connections
        if (
          before !== undefined &&
          before.service.metadata?.generation === service.metadata?.generation &&
          sameSpec(before.service, service)
        )
          this.#reuseTls(before.service, service);
        remotes.set(`${group}/${version}`, { service, group, version });
      }
    }
    this.#remotes = remotes;
    this.#availability.setServices([...this.#services.objects.values()]);
    this.#rebuildGroups();
    if (remotes.size > 0 && !this.#endpointsStarted) {
      this.#endpointsStarted = true;
      void this.#endpoints.start();
    }
    for (const listener of this.#listeners) listener();
  }

  #reuseTls(before: APIService, now: APIService): void {
    const tls = this.#tlsByService.get(before);
    if (tls !== undefined) this.#tlsByService.set(now, tls);
  }

  #rebuildGroups(): void {
    const apis = [...this.#remotes.values()].map(
      ({ service, group, version }): AggregatedApi => ({
        group,
        version,
        groupPriority: service.spec?.groupPriorityMinimum ?? 0,
        versionPriority: service.spec?.versionPriority ?? 0,
        available: this.#availability.isAvailable(service),
        ...this.#availability.discoveryOf(service.metadata?.name ?? ''),
      }),
    );
    if (JSON.stringify(apis) !== JSON.stringify(this.#groups)) this.#groups = apis;
  }
}

const sameSpec = (a: APIService, b: APIService): boolean => a.spec === b.spec || JSON.stringify(a.spec) === JSON.stringify(b.spec);
