import { isObject, jsonEqual } from '@oarlock/api/json/json';
import { apiServices } from '@oarlock/api/resources';
import { formatTime } from '@oarlock/api/values/time';
import type { APIService, APIServiceCondition } from '@oarlock/api/types/apiregistration-v1';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { LoopbackClient, ignoreReasons } from '../controllers/loopback-client.ts';
import type { Pipeline } from '../pipeline/pipeline.ts';
import type { AggregatedApi, AggregatedResource } from '../discovery/aggregated-groups.ts';
import type { ProxyTarget, ReverseProxy } from '../proxy/reverse-proxy.ts';
import { fetchBuffered, type BufferedResponse } from '../proxy/buffered-response.ts';
import type { RequestHandler } from '../request/response.ts';

export interface AvailabilityControllerOptions {
  readonly pipeline: RequestHandler & Pick<Pipeline, 'resolveService'>;
  readonly proxy: ReverseProxy;
  readonly clock: Clock;
  readonly log: Logger;
  target(service: APIService, path: string, headers?: ProxyTarget['headers']): Promise<ProxyTarget | undefined>;
  /** What a server serves, or whether it does, has changed. */
  onDiscovery(): void;
}

type AvailableCondition = Pick<APIServiceCondition, 'status' | 'reason' | 'message'>;
type ProbedDiscovery = Pick<AggregatedApi, 'resources' | 'openApiHash'>;

const localCondition: AvailableCondition = { status: 'True', reason: 'Local', message: 'Local APIServices are always available' };
const passedCondition: AvailableCondition = { status: 'True', reason: 'Passed', message: 'all checks passed' };
const probeMs = 5_000;
const probeIntervalMs = 30_000;
const minProbeIntervalMs = 500;
const maxDiscoveryBytes = 4 * 1024 * 1024;
const accept = { accept: 'application/json' };
/** As whom the aggregator itself asks. */
const own = { 'x-remote-user': 'system:kube-aggregator', 'x-remote-group': 'system:masters' };

interface TrackedService {
  /** When it was last asked, in milliseconds of the monotonic clock. */
  asked: number;
  service: APIService;
  condition: AvailableCondition | undefined;
  discovery: ProbedDiscovery;
  /** How often it failed in a row. */
  failures: number;
  timer: Timer | undefined;
  probing: boolean;
}

/** Asks every extension API server from time to time what it serves, and says in its APIService whether it answered. */
export class AvailabilityController {
  readonly #options: AvailabilityControllerOptions;
  readonly #requests: LoopbackClient;
  readonly #stop = new AbortController();
  readonly #trackedServices = new Map<string, TrackedService>();
  readonly #probes = new Set<Promise<void>>();

  constructor(options: AvailabilityControllerOptions) {
    this.#options = options;
    this.#requests = new LoopbackClient(options.pipeline);
  }

  async stop(): Promise<void> {
    this.#stop.abort(new Error('the API server is stopping'));
    for (const { timer } of this.#trackedServices.values()) timer?.cancel();
    await Promise.all(this.#probes);
  }

  isAvailable({ metadata, status }: APIService): boolean {
    const verdict = this.#trackedServices.get(metadata?.name ?? '')?.condition;
    return (verdict ?? status?.conditions?.find(({ type }) => type === 'Available'))?.status === 'True';
  }
  discoveryOf(name: string): ProbedDiscovery {
    return this.#trackedServices.get(name)?.discovery ?? {};
  }

  /** From now on these, and no others. Those that are new or have changed are asked at once. */
  setServices(services: readonly APIService[]): void {
    const names = new Set(services.map(({ metadata }) => metadata?.name ?? ''));
    for (const [name, watched] of this.#trackedServices)
      if (!names.has(name)) {
        watched.timer?.cancel();
        this.#trackedServices.delete(name);
      }
    for (const service of services) {
      const name = service.metadata?.name ?? '';
      const watched = this.#trackedServices.get(name);
      if (watched === undefined) {
        const fresh: TrackedService = {
          asked: Number.NEGATIVE_INFINITY,
          service,
          condition: undefined,
          discovery: {},
          failures: 0,
          timer: undefined,
          probing: false,
        };
        this.#trackedServices.set(name, fresh);
        this.#scheduleProbe(fresh);
        continue;
      }
      const changed = !jsonEqual(watched.service.spec, service.spec);
      watched.service = service;
      if (changed) {
        watched.condition = undefined;
        watched.discovery = {};
        this.#scheduleProbe(watched);
      }
    }
  }

  /** Something happened among the endpoints of Services: who did not answer may do so now. */
  probeSoon(): void {
    const now = this.#options.clock.monotonic();
    for (const watched of this.#trackedServices.values())
      if (watched.service.spec?.service !== undefined && watched.condition?.status === 'False' && now - watched.asked >= minProbeIntervalMs)
        this.#scheduleProbe(watched);
  }

  #scheduleProbe(watched: TrackedService): void {
    watched.timer?.cancel();
    if (watched.probing || this.#stop.signal.aborted) return;
    watched.probing = true;
    watched.asked = this.#options.clock.monotonic();
    const probe = this.#probe(watched).finally(() => {
      watched.probing = false;
      this.#probes.delete(probe);
    });
    this.#probes.add(probe);
  }

  async #probe(watched: TrackedService): Promise<void> {
    const { clock, log, onDiscovery } = this.#options;
    const { service } = watched;
    let verdict: AvailableCondition;
    try {
      verdict = await this.#probeCondition(watched);
    } catch (error) {
      verdict = { status: 'False', reason: 'FailedDiscoveryCheck', message: error instanceof Error ? error.message : String(error) };
    }
    if (this.#stop.signal.aborted || this.#trackedServices.get(service.metadata?.name ?? '') !== watched) return;
    const stale = !jsonEqual(watched.service.spec, service.spec);
    if (!stale) {
      watched.condition = verdict;
      watched.failures = verdict.status === 'True' ? 0 : watched.failures + 1;
      onDiscovery();
      try {
        await this.#report(watched.service, verdict);
      } catch (error) {
        log.warn({ apiService: service.metadata?.name, error: String(error) }, 'the availability of an APIService could not be written');
      }
    }
    if (service.spec?.service === undefined && !stale) return;
    const wait = stale
      ? 0
      : verdict.status === 'True'
        ? probeIntervalMs
        : Math.min(probeIntervalMs, minProbeIntervalMs * 2 ** Math.min(watched.failures, 6));
    watched.timer = clock.after(wait, () => {
      this.#scheduleProbe(watched);
    });
  }

  async #probeCondition(watched: TrackedService): Promise<AvailableCondition> {
    const { pipeline } = this.#options;
    const { service } = watched;
    const { group = '', version = '', service: reference } = service.spec ?? {};
    if (reference === undefined) return localCondition;
    const { name = '', namespace = '', port = 443 } = reference;
    const found = pipeline.resolveService(namespace, name, port);
    const no = (reason: string, message: string): AvailableCondition => ({ status: 'False', reason, message });
    if (found.outcome === 'no service') return no('ServiceNotFound', `service/${name} in "${namespace}" is not present`);
    if (found.outcome === 'no port') return no('ServicePortError', `service/${name} in "${namespace}" is not listening on port ${port}`);
    if (found.outcome === 'no endpoints') return no('EndpointsNotFound', `cannot find endpoints for service/${name} in "${namespace}"`);
    if (found.outcome === 'not ready')
      return no('MissingEndpoints', `endpoints for service/${name} in "${namespace}" have no addresses with port name "${found.portName}"`);
    const path = `/apis/${group}/${version}`;
    const url = `https://${found.host.includes(':') ? `[${found.host}]` : found.host}:${found.port}${path}`;
    const failed = (why: string) => no('FailedDiscoveryCheck', `failing or missing response from ${url}: ${why}`);
    const target = await this.#options.target(service, path, { ...accept, ...own });
    if (target === undefined) return failed('the service is gone');
    let answer: BufferedResponse;
    try {
      answer = await this.#fetch({ ...target, headers: { ...target.headers, ...accept, ...own } });
    } catch (error) {
      return failed(error instanceof Error ? error.message : String(error));
    }
    if (answer.code < 200 || answer.code > 300) return failed(`bad status from ${url}: ${answer.code}`);
    const resources = resourcesOf(answer.body);
    const openApiHash = await this.#openApiHash(target, `apis/${group}/${version}`);
    watched.discovery = { ...(resources && { resources }), ...(openApiHash !== undefined && { openApiHash }) };
    return passedCondition;
  }

  /** The hash by which the other server's index of OpenAPI v3 names a document; one without has none. */
  async #openApiHash(target: ProxyTarget, document: string): Promise<string | undefined> {
    try {
      const { code, body } = await this.#fetch({ ...target, path: '/openapi/v3', headers: { ...target.headers, ...accept, ...own } });
      if (code !== 200) return undefined;
      const index: unknown = JSON.parse(body.toString('utf8'));
      const paths = isObject(index) ? index['paths'] : undefined;
      const entry = isObject(paths) ? paths[document] : undefined;
      const url = isObject(entry) ? entry['serverRelativeURL'] : undefined;
      return typeof url === 'string' ? (new URL(url, 'https://x').searchParams.get('hash') ?? '') : undefined;
    } catch (error) {
      this.#options.log.debug({ document, error: String(error) }, 'an extension API server has no OpenAPI documents');
      return undefined;
    }
  }

  #fetch(target: ProxyTarget) {
    return fetchBuffered(this.#options.proxy, target, {}, { signals: [this.#stop.signal], limit: maxDiscoveryBytes, timeoutMs: probeMs });
  }

  /** Somebody else's change comes as an event, and is reported on then. */
  async #report(service: APIService, verdict: AvailableCondition): Promise<void> {
    const before = service.status?.conditions?.find(({ type }) => type === 'Available');
    if (before?.status === verdict.status && before.reason === verdict.reason && before.message === verdict.message) return;
    const lastTransitionTime =
      before?.status === verdict.status && before.lastTransitionTime ? before.lastTransitionTime : formatTime(this.#options.clock.now());
    const others = (service.status?.conditions ?? []).filter(({ type }) => type !== 'Available');
    const conditions = [...others, { type: 'Available', lastTransitionTime, ...verdict }];
    await this.#requests
      .update(apiServices, { ...service, ...{ status: { conditions } } }, 'status')
      .catch(ignoreReasons('Conflict', 'NotFound'));
  }
}

function resourcesOf(body: Buffer): readonly AggregatedResource[] | undefined {
  let list: unknown;
  try {
    list = JSON.parse(body.toString('utf8'));
  } catch {
    return undefined; // it answered, but with something else
  }
  const resources = isObject(list) ? list['resources'] : undefined;
  return Array.isArray(resources)
    ? (resources as unknown[]).filter(
        (entry): entry is Readonly<Record<string, unknown>> & AggregatedResource => isObject(entry) && typeof entry['name'] === 'string',
      )
    : undefined;
}
