import { ROOT_CONTEXT, trace, type Attributes, type Context, type Span, type Tracer } from '@opentelemetry/api';
import { groupResource } from '@oarlock/api/resource';
import { isStatus } from '@oarlock/api/status';
import { causeOf, failSpan, startSpan, type Cause } from '@oarlock/kernel/tracing';
import { eventLoop } from '@oarlock/kernel/event-loop';
import type { ApiRequest } from '@oarlock/spi/loopback';

const maxWarnings = 64;
/** Bytes of a body each step of which takes so long that others are to have their turn before the next. */
const largeBody = 262_144;
const writes: ReadonlySet<string> = new Set(['create', 'update', 'patch', 'delete', 'deletecollection']);
/** Renewals of Leases cause nothing, and in large clusters their spans would leave no room for any others. */
const renews = ({ resource, verb }: ApiRequest) =>
  resource.resource === 'leases' && resource.group === 'coordination.k8s.io' && (verb === 'update' || verb === 'patch');

/** One request on its way through the stages, and what they learn about it. */
export class Call {
  readonly request: ApiRequest;
  /** Milliseconds since the epoch at which the request came in; all times that it writes are this one. */
  readonly now: number;
  dryRun: boolean;
  readonly warnings: string[] = [];
  /** Keys that this request wanted to reserve and found taken. */
  readonly taken = new Set<string>();
  readonly #tracer: Tracer;
  readonly #span: Span | undefined;
  #within: Context | undefined;
  /** What the watch events of this request's writes are said to be caused by, and what plugins ask of others for it. */
  readonly cause: Cause | undefined;

  constructor(request: ApiRequest, now: number, tracer: Tracer) {
    this.request = request;
    this.now = now;
    this.#tracer = tracer;
    this.dryRun = request.query['dryRun'] === 'All';
    const traced = request.cause?.isRemote === true || (writes.has(request.verb) && !renews(request));
    const { authentication } = request;
    if (traced)
      this.#span = startSpan(tracer, this.#name(), { cause: request.cause, ...(authentication && { startTime: authentication.from }) });
    this.cause = this.#span === undefined ? request.cause : causeOf(this.#span);
    if (this.#span?.isRecording()) {
      if (authentication)
        startSpan(tracer, 'authentication', { cause: this.#span.spanContext(), startTime: authentication.from }).end(authentication.to);
      this.#span.setAttributes({ 'oarlock.verb': request.verb, 'oarlock.user': request.identity.name });
      if (request.name !== '') this.named(request.name);
    }
  }

  /** A span below the request's, when that is recorded. The caller ends it. Frozen attributes are shared. */
  child(name: string, attributes?: Attributes): Span | undefined {
    const span = this.#span;
    if (span === undefined || !span.isRecording()) return undefined;
    this.#within ??= trace.setSpanContext(ROOT_CONTEXT, span.spanContext());
    return this.#tracer.startSpan(name, attributes && { attributes }, this.#within);
  }

  /** Each step of the request may hold the event loop for long. */
  get large(): boolean {
    return (this.request.bytes ?? 0) > largeBody;
  }

  /** Others have their turn; for between two steps of a large request. */
  rest(): Promise<void> {
    return eventLoop.turn();
  }

  named(name: string): void {
    const { resource, namespace } = this.request;
    this.#span?.setAttribute('oarlock.object', [groupResource(resource), namespace, name].filter((part) => part !== '').join('/'));
  }

  wrote(revision: number): void {
    this.#span?.setAttribute('oarlock.revision', revision);
  }

  warn(message: string): void {
    if (message !== '' && this.warnings.length < maxWarnings && !this.warnings.includes(message)) this.warnings.push(message);
  }

  /** For the audit event of the request, where there is to be one. */
  annotate(key: string, value: string, level?: 'Request'): void {
    this.request.annotate?.(key, value, level);
  }

  end(code: number, error?: unknown): void {
    if (this.#span === undefined) return;
    this.#span.setAttribute('http.response.status_code', code);
    if (error !== undefined && !this.#overtaken(error)) failSpan(this.#span, error);
    this.#span.end();
  }

  /** Somebody else was sooner, and who asked looks again: no step that failed, though the code says so. */
  #overtaken(error: unknown): boolean {
    return isStatus(error, 'Conflict') || (this.request.verb === 'delete' && isStatus(error, 'NotFound'));
  }

  #name(): string {
    const { verb, resource, subresource } = this.request;
    return `${verb} ${groupResource(resource)}${subresource === '' ? '' : `/${subresource}`}`;
  }
}
