import { ROOT_CONTEXT, trace, type Attributes, type Context, type Span, type Tracer } from '@opentelemetry/api';
import { groupResource } from '@oarlock/api/resource';
import { isStatus } from '@oarlock/api/status';
import { spanContextOf, failSpan, startSpan, type SpanContext } from '@oarlock/kernel/tracing';
import { eventLoop } from '@oarlock/primitives/concurrency/event-loop';
import type { ApiRequest } from '@oarlock/spi/loopback';
import { errorName, isConfidential } from './confidential.ts';
import type { LatencyStep, LatencyTracked } from './latency-tracker.ts';

const maxWarnings = 64;
/** The body size in bytes above which a request yields to the event loop between its steps. */
const largeBodyBytes = 262_144;
/** The number of values of a body from which a request of this process, whose body has no size in bytes, yields as well. */
const largeBodyValues = 4_096;
const writeVerbs: ReadonlySet<string> = new Set(['create', 'update', 'patch', 'delete', 'deletecollection']);
/** Returns true for Lease renewals, which are not traced because their spans would displace all others in large clusters. */
const isLeaseRenewal = ({ resource, verb }: ApiRequest) =>
  resource.resource === 'leases' && resource.group === 'coordination.k8s.io' && (verb === 'update' || verb === 'patch');

/** Returns a number of values minus those of an object; a negative one as soon as the object has more. */
function remainingAfter(value: unknown, left: number): number {
  let remaining = left - 1;
  if (typeof value !== 'object' || value === null) return remaining;
  for (const key in value) {
    if (remaining < 0) return remaining;
    remaining = remainingAfter((value as Readonly<Record<string, unknown>>)[key], remaining);
  }
  return remaining;
}

/** The state of one request in the pipeline, such as warnings, the trace span and the time. */
export class RequestContext {
  readonly request: ApiRequest;
  /** The time of arrival in milliseconds since the Unix epoch, used for all timestamps that the request writes. */
  readonly now: number;
  dryRun: boolean;
  readonly warnings: string[] = [];
  /** The size of the stored object that the request changes, in bytes. */
  objectBytes = 0;
  /** Storage keys of allocations that this request tried and found taken. */
  readonly takenReservations = new Set<string>();
  readonly #tracer: Tracer;
  readonly #span: Span | undefined;
  #hasLargeBody: boolean | undefined;
  #childContext: Context | undefined;
  /** The span context for the watch events of this request's writes, and for calls that plugins make for this request. */
  readonly spanContext: SpanContext | undefined;

  constructor(request: ApiRequest, now: number, tracer: Tracer) {
    this.request = request;
    this.now = now;
    this.#tracer = tracer;
    this.dryRun = request.query['dryRun'] === 'All';
    const traced = request.spanContext?.isRemote === true || (writeVerbs.has(request.verb) && !isLeaseRenewal(request));
    const { authentication } = request;
    if (traced)
      this.#span = startSpan(tracer, this.#name(), {
        spanContext: request.spanContext,
        ...(authentication && { startTime: authentication.from }),
      });
    this.spanContext = this.#span === undefined ? request.spanContext : spanContextOf(this.#span);
    if (this.#span?.isRecording()) {
      if (authentication)
        startSpan(tracer, 'authentication', { spanContext: this.#span.spanContext(), startTime: authentication.from }).end(
          authentication.to,
        );
      this.#span.setAttributes({ 'oarlock.verb': request.verb, 'oarlock.user': request.identity.name });
      if (request.name !== '') this.setObjectName(request.name);
    }
  }

  /**
   * Starts a child of the request's span, which the caller must end. Returns undefined if the request is not traced. Frozen attributes are shared.
   */
  startChildSpan(name: string, attributes?: Attributes): Span | undefined {
    const span = this.#span;
    if (span === undefined || !span.isRecording()) return undefined;
    this.#childContext ??= trace.setSpanContext(ROOT_CONTEXT, span.spanContext());
    return this.#tracer.startSpan(name, attributes && { attributes }, this.#childContext);
  }

  /** True if each step of the request may block the event loop for a long time: its body or the object that it changes is large. */
  get isLarge(): boolean {
    return this.objectBytes > largeBodyBytes || (this.#hasLargeBody ??= this.#measureBody());
  }

  #measureBody(): boolean {
    const { bytes, body, verb } = this.request;
    if (bytes !== undefined) return bytes > largeBodyBytes;
    return verb === 'create' && remainingAfter(body, largeBodyValues) < 0;
  }

  /** Yields to the event loop. Called between two steps of a large request. */
  yieldEventLoop(): Promise<void> {
    return eventLoop.yield();
  }

  /** Runs the steps of a large request, and yields to the event loop between two steps. */
  async inTurns<T>(steps: Generator<undefined, T, undefined>): Promise<T> {
    for (;;) {
      const step = steps.next();
      if (step.done === true) return step.value;
      await eventLoop.yield();
    }
  }

  setObjectName(name: string): void {
    const { resource, namespace } = this.request;
    this.#span?.setAttribute('oarlock.object', [groupResource(resource), namespace, name].filter((part) => part !== '').join('/'));
  }

  setRevision(revision: number): void {
    this.#span?.setAttribute('oarlock.revision', revision);
  }

  warn(message: string): void {
    if (message !== '' && this.warnings.length < maxWarnings && !this.warnings.includes(message)) this.warnings.push(message);
  }

  /** Adds an annotation to the audit event of the request. Does nothing if the request is not audited. */
  annotate(key: string, value: string, level?: 'Request'): void {
    this.request.annotate?.(key, value, level);
  }

  /** Adds the time in milliseconds that a step of the request took, for its metrics and its audit event. */
  addLatency(step: LatencyStep, ms: number): void {
    const { latencies }: LatencyTracked = this.request;
    latencies?.addLatency(step, ms);
  }

  end(code: number, error?: unknown): void {
    if (this.#span === undefined) return;
    this.#span.setAttribute('http.response.status_code', code);
    if (error !== undefined && !this.#isExpectedRace(error)) this.failSpan(this.#span, error);
    this.#span.end();
  }

  /** True if error messages must not be written to logs and spans, because they may quote confidential bodies. */
  get isConfidential(): boolean {
    const { resource, subresource, namespace } = this.request;
    return isConfidential({ group: resource.group, resource: resource.resource, subresource, namespace });
  }

  /** Marks a span of this request as failed. */
  failSpan(span: Span, error: unknown): void {
    failSpan(span, this.isConfidential ? errorName(error) : error);
  }

  /** Returns true for conflicts with a concurrent request, which are expected and do not mark the span as failed. */
  #isExpectedRace(error: unknown): boolean {
    return isStatus(error, 'Conflict') || (this.request.verb === 'delete' && isStatus(error, 'NotFound'));
  }

  #name(): string {
    const { verb, resource, subresource } = this.request;
    return `${verb} ${groupResource(resource)}${subresource === '' ? '' : `/${subresource}`}`;
  }
}
