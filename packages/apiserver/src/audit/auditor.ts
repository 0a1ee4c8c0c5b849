import { randomUUID } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { isIP } from 'node:net';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { AuditEvent, AuditSink } from '@oarlock/spi/audit';
import { anonymous } from '@oarlock/spi/authn';
import type { Attributes } from '@oarlock/spi/authz';
import type { ApiRequest } from '@oarlock/spi/loopback';
import { attributesOf } from '../authorization/authorization.ts';
import type { LoopbackPathHandler } from '../pipeline/loopback-handler.ts';
import type { Exchange } from '../http/exchange.ts';
import { StatusError } from '@oarlock/api/status';
import { internalError } from '../http/errors.ts';
import { uriOf } from './audit-objects.ts';
import { metadataLevelPolicy, type AuditPolicy } from './audit-policy.ts';
import type { AuditMetrics } from './audit-metrics.ts';
import { AuditTrail, type AuditSubject } from './audit-trail.ts';
import type { LatencyTracked } from '../endpoints/request/latency-tracker.ts';
import type { RequestHandler } from '../endpoints/request/response.ts';

/** A request that was rejected before it had a user. */
export interface UnauthenticatedRequest {
  readonly subject: () => AuditSubject;
  readonly attributes: Attributes;
  readonly code: number;
}

export interface AuditorOptions {
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics?: AuditMetrics;
}

/** Applies the audit policy: decides which requests are audited, and passes their events to all sinks. Created only if sinks are configured. */
export class Auditor {
  readonly #sinks: readonly AuditSink[];
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #metrics: AuditMetrics | undefined;
  readonly #pendingRecords = new Set<Promise<void>>();
  #policy: AuditPolicy = metadataLevelPolicy;

  constructor(sinks: readonly AuditSink[], { clock, log, metrics }: AuditorOptions) {
    this.#sinks = sinks;
    this.#clock = clock;
    this.#log = log;
    this.#metrics = metrics;
  }

  setPolicy(policy: AuditPolicy): void {
    this.#policy = policy;
  }

  /** Resolves when the sinks that apply back pressure have accepted all pending events. Returns undefined if no event is pending. */
  waitForBackPressure(): Promise<unknown> | undefined {
    return this.#pendingRecords.size === 0 ? undefined : Promise.all(this.#pendingRecords);
  }

  /** Returns the audit trail of a request; undefined if the policy excludes the request. `subject` is called only for audited requests. */
  trail(subject: () => AuditSubject, attributes: Attributes): AuditTrail | undefined {
    const scope = this.#policy(attributes);
    this.#metrics?.countRequest(scope?.level ?? 'None');
    if (scope === undefined) return undefined;
    return new AuditTrail(subject(), attributes, { scope, record: (event) => this.#record(event), now: () => this.#clock.now() });
  }

  /** Records an HTTP request whose authentication failed. */
  recordUnauthenticated(exchange: Exchange, { subject, attributes, code }: UnauthenticatedRequest): void {
    const withoutUser = { ...attributes, identity: { ...anonymous, name: '', groups: [] } };
    this.trail(subject, withoutUser)?.recordUnauthenticated(attemptedMethods(exchange.headers), code);
  }

  /** Returns a handler that audits in-process requests like HTTP requests and passes them to `pipeline`. */
  auditPipeline(pipeline: RequestHandler): RequestHandler {
    return {
      handle: async (request) => {
        const trail = this.trail(() => this.#subject(uriOf(request), request), attributesOf(request));
        if (trail === undefined) return pipeline.handle(request);
        await recordReceived(trail);
        trail.setRequestObject(request.body);
        try {
          const audited: LatencyTracked = {
            ...request,
            annotate: (key, value, level) => trail.annotate(key, value, level),
            latencies: trail,
          };
          const response = await pipeline.handle(audited);
          trail.setResponse(response);
          if (response.kind === 'watch') trail.recordResponseStarted();
          trail.recordResponseComplete(response.kind === 'object' ? response.code : 200);
          return response;
        } catch (error) {
          this.#recordError(trail, error);
          throw error;
        }
      },
    };
  }

  /** Returns a handler that audits in-process requests for non-resource paths and passes them to `answer`. */
  auditPaths(answer: LoopbackPathHandler): LoopbackPathHandler {
    return async (method, path, body, identity) => {
      const attributes: Attributes = { kind: 'path', identity, verb: method.toLowerCase(), path: path.split('?', 1)[0] ?? path };
      const trail = this.trail(() => this.#subject(path, undefined), attributes);
      if (trail === undefined) return answer(method, path, body, identity);
      await recordReceived(trail);
      try {
        const value = await answer(method, path, body, identity);
        trail.recordResponseComplete(200);
        return value;
      } catch (error) {
        this.#recordError(trail, error);
        throw error;
      }
    };
  }

  #recordError(trail: AuditTrail, error: unknown): void {
    if (!(error instanceof StatusError)) {
      trail.recordPanic(error);
      return;
    }
    trail.recordRejection(error.status);
    trail.recordResponseComplete(error.code);
  }

  #subject(requestURI: string, request: Pick<ApiRequest, 'userAgent'> | undefined): AuditSubject {
    return { auditID: randomUUID(), requestURI, userAgent: request?.userAgent, sourceIPs: ['127.0.0.1'], receivedAt: this.#clock.now() };
  }

  #record(event: AuditEvent): Promise<void> | undefined {
    this.#metrics?.countEvent();
    let waiting: Promise<void> | undefined;
    for (const sink of this.#sinks) {
      const accepted = callSink(sink, event);
      if (accepted === undefined) continue;
      const pending = accepted
        .catch((error: unknown) => {
          this.#log.error({ err: error, auditID: event.auditID, stage: event.stage }, 'recording an audit event failed');
        })
        .finally(() => this.#pendingRecords.delete(pending));
      this.#pendingRecords.add(pending);
      if (event.stage === 'RequestReceived')
        waiting = waiting === undefined ? accepted : Promise.all([waiting, accepted]).then(() => undefined);
    }
    waiting?.catch(() => this.#metrics?.countRejectedRequest());
    return waiting;
  }
}

/** Returns what `record` returns; a promise that rejects if `record` throws. */
function callSink(sink: AuditSink, event: AuditEvent): void | Promise<void> {
  try {
    return sink.record(event);
  } catch (error) {
    return Promise.reject(error as Error);
  }
}

/**
 * Records the stage RequestReceived. Returns a promise only if a sink applies back pressure.
 * @throws StatusError InternalError if a strict sink failed to record the event
 */
export function recordReceived(trail: AuditTrail): void | Promise<void> {
  return trail.recordReceived()?.catch((error: unknown) => {
    throw internalError('the request cannot be audited', error);
  });
}

/**
 * Returns the IP addresses from which a request came: the ones in the headers of proxies, and the address of the connection
 * (utilnet.SourceIPs upstream).
 */
export function sourceIPs({ headers, connection }: Pick<Exchange, 'headers' | 'connection'>): readonly string[] {
  const remote = connection.sourceAddress;
  const forwarded = headers['x-forwarded-for']?.toString();
  const real = headers['x-real-ip']?.toString().trim();
  if (forwarded === undefined && real === undefined) return remote === undefined ? [] : [remote];
  const addresses = new Set(
    (forwarded ?? '')
      .slice(0, 1024)
      .split(',')
      .map((part) => part.trim())
      .filter((part) => isIP(part) !== 0),
  );
  if (real !== undefined && isIP(real) !== 0) addresses.add(real);
  if (remote !== undefined) addresses.add(remote);
  return [...addresses];
}

function attemptedMethods({ authorization }: IncomingHttpHeaders): string {
  const method = authorization?.trim().split(/\s+/, 1)[0]?.toLowerCase() ?? '';
  if (method === '') return 'Authentication failed, no credentials provided';
  return `Authentication failed, attempted: ${method === 'bearer' || method === 'basic' ? method : 'unknown'}`;
}
