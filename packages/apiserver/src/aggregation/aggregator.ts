import { isObject } from '@oarlock/api/json/json';
import { apiServices, endpointSlices } from '@oarlock/api/resources';
import type { APIService } from '@oarlock/api/types/apiregistration-v1';
import type { EndpointSlice } from '@oarlock/api/types/discovery-v1';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { Identity } from '@oarlock/spi/authn';
import { checkSubjectAlternativeNames } from '@oarlock/primitives/keep-alive-connection';
import { LoopbackInformer } from '../controllers/loopback-informer.ts';
import type { Exchange, UpgradeRequest } from '../http/exchange.ts';
import type { AggregatedDocument } from '../openapi/aggregated-documents.ts';
import type { Pipeline } from '../pipeline/pipeline.ts';
import { requestHeaders } from './request-header.ts';
import { AvailabilityController } from './availability-controller.ts';
import type { ProxyClientCertificate } from '../proxy/proxy-client-certificate.ts';
import type { AggregatedApi, AggregatedApis } from '../discovery/aggregated-groups.ts';
import { RemoteRequests, serviceUnavailable } from './remote-requests.ts';
import type { ProxyTarget, ProxyTls, ReverseProxy } from '../proxy/reverse-proxy.ts';
import type { RequestHandler } from '../request/response.ts';
import type { Remote } from './remote.ts';

export interface AggregatorOptions {
  readonly pipeline: RequestHandler & Pick<Pipeline, 'resolveService'>;
  readonly proxy: ReverseProxy;
  /** The certificate by which other API servers know this one as the front of them. */
  readonly frontProxy: ProxyClientCertificate;
  readonly clock: Clock;
  readonly log: Logger;
}

const documentsMs = 60_000;
/** As whom the aggregator itself asks. */
const aggregatorIdentity: Identity = { name: 'system:kube-aggregator', groups: ['system:masters'] };

/** API groups of other servers, behind Services: their requests go on there, as whoever asks. KEP-263's kube-aggregator. */
export class Aggregator {
  readonly #options: AggregatorOptions;
  readonly #services: LoopbackInformer<APIService>;
  /** Followed from when the first APIService leads elsewhere. */
  readonly #endpoints: LoopbackInformer<EndpointSlice>;
  readonly #availability: AvailabilityController;
  /** Requests of callers in this process. */
  readonly requests: RemoteRequests;
  readonly #listeners: (() => void)[] = [];
  readonly #stop = new AbortController();
  #documents: { readonly of: AggregatedApis; readonly at: number; readonly documents: Promise<readonly AggregatedDocument[]> } | undefined;
  #aggregatedDocuments = false;
  #remotes = new Map<string, Remote>();
  #groups: AggregatedApis = [];
  #secrets = new WeakMap<APIService, Promise<ProxyTls>>();

  constructor(options: AggregatorOptions) {
    this.#options = options;
    this.#services = new LoopbackInformer(apiServices, { ...options, onChange: () => this.#changed() });
    this.#endpoints = new LoopbackInformer(endpointSlices, { ...options, onChange: () => this.#availability.probeSoon() });
    this.#availability = new AvailabilityController({
      ...options,
      target: (service, path) => this.#target(service, path),
      onDiscovery: () => this.#rebuildGroups(),
    });
    this.requests = new RemoteRequests({
      proxy: options.proxy,
      stop: this.#stop.signal,
      target: async ({ service }, path, headers) =>
        this.#availability.isAvailable(service) ? this.#target(service, path, headers) : undefined,
    });
  }

  /** Resolves when all APIServices have been seen; whether they can be reached is found out afterwards. */
  start(): Promise<void> {
    return this.#services.start();
  }

  async stop(): Promise<void> {
    this.#stop.abort(new Error('the API server is stopping'));
    await Promise.all([this.#services.stop(), this.#endpoints.stop()]);
    await this.#availability.stop();
  }

  /** Calls back whenever an APIService changes. */
  addServicesListener(listener: () => void): void {
    this.#listeners.push(listener);
  }
  /** Every APIService, by name. */
  get services(): ReadonlyMap<string, APIService> {
    return this.#services.objects;
  }
  /** What the others serve, for discovery: another array whenever it changes. */
  get groups(): AggregatedApis {
    return this.#groups;
  }
  /** Whether anything is served elsewhere: until then nothing is looked up. */
  get isEmpty(): boolean {
    return this.#remotes.size === 0;
  }

  /** Who serves what stands below a path, when that is somebody else. */
  find(segments: readonly string[]): Remote | undefined {
    return this.#remotes.size === 0 || segments[0] !== 'apis' || segments.length < 3
      ? undefined
      : this.#remotes.get(`${segments[1]}/${segments[2]}`);
  }

  /** Who serves the kinds of a group and version, when that is somebody else. */
  findGroup(group: string, version: string): Remote | undefined {
    return this.#remotes.size === 0 ? undefined : this.#remotes.get(`${group}/${version}`);
  }

  /** Who serves the OpenAPI document of a path such as `/openapi/v3/apis/G/V`. */
  findDocument(path: string): Remote | undefined {
    if (this.#remotes.size === 0 || !path.startsWith('/openapi/v3/apis/')) return undefined;
    return this.#remotes.get(path.slice('/openapi/v3/apis/'.length));
  }

  /** What the others that can be reached say in OpenAPI v2 about their groups. Asked again after a minute. */
  documents(): Promise<readonly AggregatedDocument[]> {
    const now = this.#options.clock.monotonic();
    const groups = this.#groups;
    if (this.#documents === undefined || this.#documents.of !== groups || now - this.#documents.at > documentsMs)
      this.#documents = { of: groups, at: now, documents: this.#readDocuments() };
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

  /** Passes a request on that has been authorized here. @throws StatusError `ServiceUnavailable` */
  async serve({ service }: Remote, exchange: Exchange, identity: Identity, upgrade: UpgradeRequest | undefined): Promise<void> {
    if (!this.#availability.isAvailable(service)) throw serviceUnavailable();
    const target = await this.#target(service, exchange.target, requestHeaders(exchange.headers, identity));
    if (target === undefined) throw serviceUnavailable();
    if (upgrade === undefined) await this.#options.proxy.forward(target, exchange);
    else await this.#options.proxy.upgrade(target, exchange, upgrade);
  }

  /** What a GET is answered with, for callers without HTTP who have been authorized. @throws StatusError as `ask` */
  async read(remote: Remote, path: string, identity: Identity): Promise<unknown> {
    return (await this.requests.request(remote, { method: 'GET', path, identity })).value;
  }

  /** Where an APIService is to be reached right now; undefined where it is not. */
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

  /** Who the other side has to be, and who this one is. One object as long as neither changes, so that connections are kept. */
  async #tls(service: APIService): Promise<ProxyTls> {
    const own = await this.#options.frontProxy.tls();
    let known = this.#secrets.get(service);
    if (known === undefined || (await known).cert !== own.cert) {
      const { caBundle, insecureSkipTLSVerify, service: reference } = service.spec ?? {};
      const tls: ProxyTls = {
        ...own,
        servername: `${reference?.name ?? ''}.${reference?.namespace ?? ''}.svc`,
        checkServerIdentity: checkSubjectAlternativeNames,
        ...(insecureSkipTLSVerify === true && { rejectUnauthorized: false }),
        ...(caBundle && { ca: Buffer.from(caBundle, 'base64') }),
      };
      known = Promise.resolve(tls);
      this.#secrets.set(service, known);
    }
    return known;
  }

  #changed(): void {
    const remotes = new Map<string, Remote>();
    for (const service of this.#services.objects.values()) {
      const { group = '', version = '', service: reference } = service.spec ?? {};
      if (reference !== undefined && group !== '') {
        const before = this.#remotes.get(`${group}/${version}`);
        // a report on a service is none of its connections' business
        if (
          before !== undefined &&
          before.service.metadata?.generation === service.metadata?.generation &&
          sameSpec(before.service, service)
        )
          this.#withTlsReuse(before.service, service);
        remotes.set(`${group}/${version}`, { service, group, version });
      }
    }
    this.#remotes = remotes;
    this.#availability.setServices([...this.#services.objects.values()]);
    this.#rebuildGroups();
    if (remotes.size > 0 && !this.#aggregatedDocuments) {
      this.#aggregatedDocuments = true;
      void this.#endpoints.start();
    }
    for (const listener of this.#listeners) listener();
  }

  #withTlsReuse(before: APIService, now: APIService): void {
    const known = this.#secrets.get(before);
    if (known !== undefined) this.#secrets.set(now, known);
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
