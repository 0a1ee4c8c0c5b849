import { isObject, jsonEqual } from '@oarlock/api/json/json';
import { apiServices } from '@oarlock/api/resources';
import { StatusError } from '@oarlock/api/status';
import { formatTime } from '@oarlock/api/values/time';
import type { APIService, APIServiceCondition } from '@oarlock/api/types/apiregistration-v1';
import { errorText } from '@oarlock/primitives/error-text';
import { clientTimeout, goErrorText, joinHostPort, requestErrorText } from '@oarlock/primitives/net/go-error-text';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { LoopbackClient, ignoreReasons } from '../controllers/loopback-client.ts';
import type { Pipeline } from '../pipeline/pipeline.ts';
import type { AggregatedApi, AggregatedResource } from '../endpoints/discovery/aggregated-groups.ts';
import type { ProxyTarget, ReverseProxy } from '../proxy/reverse-proxy.ts';
import { fetchBuffered, type BufferedResponse } from '../proxy/buffered-response.ts';
import type { RequestHandler } from '../endpoints/request/response.ts';
import type { AvailabilityMetrics } from './availability-metrics.ts';

export interface AvailabilityControllerOptions {
  readonly pipeline: RequestHandler & Pick<Pipeline, 'resolveService'>;
  readonly proxy: ReverseProxy;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: AvailabilityMetrics;
  target(service: APIService, path: string, headers?: ProxyTarget['headers']): Promise<ProxyTarget | undefined>;
  /** Called when the availability or the discovery document of an extension API server may have changed. */
  onDiscovery(): void;
}

type AvailableCondition = Pick<APIServiceCondition, 'status' | 'reason' | 'message'>;
type ProbedDiscovery = Pick<AggregatedApi, 'resources' | 'openApiHash'>;

const localCondition: AvailableCondition = { status: 'True', reason: 'Local', message: 'Local APIServices are always available' };
const passedCondition: AvailableCondition = { status: 'True', reason: 'Passed', message: 'all checks passed' };
const probeTimeoutMs = 5_000;
const probeIntervalMs = 30_000;
const minProbeIntervalMs = 500;
const maxDiscoveryBytes = 4 * 1024 * 1024;
const accept = { accept: 'application/json' };
/** The user of the probes. */
const aggregatorUser = { 'x-remote-user': 'system:kube-aggregator', 'x-remote-group': 'system:masters' };

interface TrackedService {
  /** The time of the last probe, in milliseconds of the monotonic clock. */
  probedAt: number;
  service: APIService;
  condition: AvailableCondition | undefined;
  discovery: ProbedDiscovery;
  /** Number of consecutive probes that failed. */
  failures: number;
  timer: Timer | undefined;
  probing: boolean;
}

/** Probes the discovery document of every extension API server and writes the condition Available of its APIService. */
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
    const condition = this.#trackedServices.get(metadata?.name ?? '')?.condition;
    return (condition ?? status?.conditions?.find(({ type }) => type === 'Available'))?.status === 'True';
  }
  discoveryOf(name: string): ProbedDiscovery {
    return this.#trackedServices.get(name)?.discovery ?? {};
  }

  /** Replaces the APIServices to probe. New and changed APIServices are probed at once. */
  setServices(services: readonly APIService[]): void {
    const names = new Set(services.map(({ metadata }) => metadata?.name ?? ''));
    for (const [name, tracked] of this.#trackedServices)
      if (!names.has(name)) {
        tracked.timer?.cancel();
        this.#trackedServices.delete(name);
        this.#options.metrics.forget(name);
      }
    for (const service of services) {
      const name = service.metadata?.name ?? '';
      const tracked = this.#trackedServices.get(name);
      if (tracked === undefined) {
        const created: TrackedService = {
          probedAt: Number.NEGATIVE_INFINITY,
          service,
          condition: undefined,
          discovery: {},
          failures: 0,
          timer: undefined,
          probing: false,
        };
        this.#trackedServices.set(name, created);
        this.#scheduleProbe(created);
        continue;
      }
      const changed = !jsonEqual(tracked.service.spec, service.spec);
      tracked.service = service;
      if (changed) {
        tracked.condition = undefined;
        tracked.discovery = {};
        this.#scheduleProbe(tracked);
      }
    }
  }

  /** Probes unavailable extension API servers again. Called when endpoints have changed. */
  probeSoon(): void {
    const now = this.#options.clock.monotonic();
    for (const tracked of this.#trackedServices.values())
      if (
        tracked.service.spec?.service !== undefined &&
        tracked.condition?.status === 'False' &&
        now - tracked.probedAt >= minProbeIntervalMs
      )
        this.#scheduleProbe(tracked);
  }

  #scheduleProbe(tracked: TrackedService): void {
    tracked.timer?.cancel();
    if (tracked.probing || this.#stop.signal.aborted) return;
    tracked.probing = true;
    tracked.probedAt = this.#options.clock.monotonic();
    const probe = this.#probe(tracked).finally(() => {
      tracked.probing = false;
      this.#probes.delete(probe);
    });
    this.#probes.add(probe);
  }

  async #probe(tracked: TrackedService): Promise<void> {
    const { clock, log, metrics, onDiscovery } = this.#options;
    const { service } = tracked;
    let condition: AvailableCondition;
    try {
      condition = await this.#probeCondition(tracked);
    } catch (error) {
      condition = { status: 'False', reason: 'FailedDiscoveryCheck', message: errorText(error) };
    }
    if (this.#stop.signal.aborted || this.#trackedServices.get(service.metadata?.name ?? '') !== tracked) return;
    const stale = !jsonEqual(tracked.service.spec, service.spec);
    if (!stale) {
      tracked.condition = condition;
      tracked.failures = condition.status === 'True' ? 0 : tracked.failures + 1;
      metrics.observe(service.metadata?.name ?? '', condition);
      onDiscovery();
      try {
        await this.#report(tracked.service, condition);
      } catch (error) {
        log.warn({ apiService: service.metadata?.name, error: String(error) }, 'writing the availability of an APIService failed');
      }
    }
    if (service.spec?.service === undefined && !stale) return;
    const wait = stale
      ? 0
      : condition.status === 'True'
        ? probeIntervalMs
        : Math.min(probeIntervalMs, minProbeIntervalMs * 2 ** Math.min(tracked.failures, 6));
    tracked.timer = clock.after(wait, () => {
      this.#scheduleProbe(tracked);
    });
  }

  async #probeCondition(tracked: TrackedService): Promise<AvailableCondition> {
    const { pipeline } = this.#options;
    const { service } = tracked;
    const { group = '', version = '', service: reference } = service.spec ?? {};
    if (reference === undefined) return localCondition;
    const { name = '', namespace = '', port = 443 } = reference;
    const found = pipeline.resolveService(namespace, name, port);
    const unavailable = (reason: string, message: string): AvailableCondition => ({ status: 'False', reason, message });
    if (found.outcome === 'no service') return unavailable('ServiceNotFound', `service/${name} in "${namespace}" is not present`);
    if (found.outcome === 'no port')
      return unavailable('ServicePortError', `service/${name} in "${namespace}" is not listening on port ${port}`);
    if (found.outcome === 'no endpoints')
      return unavailable('EndpointsNotFound', `cannot find endpoints for service/${name} in "${namespace}"`);
    if (found.outcome === 'not ready')
      return unavailable(
        'MissingEndpoints',
        `endpoints for service/${name} in "${namespace}" have no addresses with port name "${found.portName}"`,
      );
    const path = `/apis/${group}/${version}`;
    const url = `https://${joinHostPort(found.host, found.port)}${path}`;
    const failed = (cause: string) => unavailable('FailedDiscoveryCheck', `failing or missing response from ${url}: ${cause}`);
    const target = await this.#options.target(service, path, { ...accept, ...aggregatorUser });
    if (target === undefined) return failed('the service does not exist');
    let response: BufferedResponse;
    try {
      response = await this.#fetch({ ...target, headers: { ...target.headers, ...accept, ...aggregatorUser } });
    } catch (error) {
      return failed(requestErrorText('GET', url, probeErrorText(error)));
    }
    if (response.code < 200 || response.code >= 300) return failed(`bad status from ${url}: ${response.code}`);
    const resources = resourcesOf(response.body);
    const openApiHash = await this.#openApiHash(target, `apis/${group}/${version}`);
    tracked.discovery = { ...(resources && { resources }), ...(openApiHash !== undefined && { openApiHash }) };
    return passedCondition;
  }

  /** Returns the hash of a document in the server's OpenAPI v3 index; undefined if the index does not list the document. */
  async #openApiHash(target: ProxyTarget, document: string): Promise<string | undefined> {
    try {
      const { code, body } = await this.#fetch({
        ...target,
        path: '/openapi/v3',
        headers: { ...target.headers, ...accept, ...aggregatorUser },
      });
      if (code !== 200) return undefined;
      const index: unknown = JSON.parse(body.toString('utf8'));
      const paths = isObject(index) ? index['paths'] : undefined;
      const entry = isObject(paths) ? paths[document] : undefined;
      const url = isObject(entry) ? entry['serverRelativeURL'] : undefined;
      return typeof url === 'string' ? (new URL(url, 'https://x').searchParams.get('hash') ?? '') : undefined;
    } catch (error) {
      this.#options.log.debug({ document, error: String(error) }, 'an extension API server has no OpenAPI v3 index');
      return undefined;
    }
  }

  #fetch(target: ProxyTarget) {
    return fetchBuffered(this.#options.proxy, {
      target,
      request: {},
      limits: { signals: [this.#stop.signal], limit: maxDiscoveryBytes, timeoutMs: probeTimeoutMs },
    });
  }

  /** Writes the condition Available of an APIService. A conflict is ignored, because the event of the other write causes the next report. */
  async #report(service: APIService, condition: AvailableCondition): Promise<void> {
    const before = service.status?.conditions?.find(({ type }) => type === 'Available');
    if (before?.status === condition.status && before.reason === condition.reason && before.message === condition.message) return;
    const lastTransitionTime =
      before?.status === condition.status && before.lastTransitionTime ? before.lastTransitionTime : formatTime(this.#options.clock.now());
    const others = (service.status?.conditions ?? []).filter(({ type }) => type !== 'Available');
    const conditions = [...others, { type: 'Available', lastTransitionTime, ...condition }];
    await this.#requests
      .update(apiServices, { ...service, ...{ status: { conditions } } }, 'status')
      .catch(ignoreReasons('Conflict', 'NotFound'));
  }
}

/** The text of a failed connection without the prefix of a forwarded request. */
function probeErrorText(error: unknown): string {
  if (error instanceof Error && error.name === 'TimeoutError') return clientTimeout;
  return goErrorText(error instanceof StatusError ? (error.cause ?? error) : error);
}

function resourcesOf(body: Buffer): readonly AggregatedResource[] | undefined {
  let list: unknown;
  try {
    list = JSON.parse(body.toString('utf8'));
  } catch {
    return undefined; // available, but not a discovery document
  }
  const resources = isObject(list) ? list['resources'] : undefined;
  return Array.isArray(resources)
    ? (resources as unknown[]).filter(
        (entry): entry is Readonly<Record<string, unknown>> & AggregatedResource => isObject(entry) && typeof entry['name'] === 'string',
      )
    : undefined;
}
