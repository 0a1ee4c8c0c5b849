import { randomUUID } from 'node:crypto';
import { StatusError } from '@oarlock/api/status';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { anonymous, type Authenticator, type Identity } from '@oarlock/spi/authn';
import type { Authorizer } from '@oarlock/spi/authz';
import type { AuthMetrics } from '../authorization/access-metrics.ts';
import { recordReceived, sourceIPs, type Auditor } from '../audit/auditor.ts';
import type { AuditSubject, AuditTrail } from '../audit/audit-trail.ts';
import { annotateAuthorizationDecision, runAuthorizers, forbiddenError } from '../authorization/authorization.ts';
import type { ExecutionSeat, PriorityAndFairness } from '../flowcontrol/priority-and-fairness.ts';
import { estimateListWork } from '../flowcontrol/work-estimator.ts';
import { credentialsOf, authenticate } from '../authentication/authentication.ts';
import { clientClassOf } from '../http/client-class.ts';
import type { Exchange } from '../http/exchange.ts';
import { impersonate } from '../authentication/impersonation.ts';
import type { InFlightCounter } from './in-flight-requests.ts';
import type { RequestTarget } from '../http/path.ts';
import { attributesOf, type RequestInfo } from '../http/request-info.ts';
import type { Route } from '../http/routes.ts';
import { isReadOnly } from '../http/request-metrics.ts';

/** What is known of a request while it is worked on. */
export interface InFlightRequest {
  readonly auditId: string;
  readonly receivedAt: number;
  audit?: AuditTrail | undefined;
  target?: RequestTarget;
  route?: Route;
  readonly warnings: string[];
  /** Gives back the place that was taken among the requests that are worked on. */
  release?: () => void;
}

export interface RequestFilterOptions {
  readonly authn: readonly Authenticator[];
  readonly authz: readonly Authorizer[];
  /** Absent where nobody wants to be told of requests. */
  readonly auditor?: Auditor | undefined;
  readonly access?: AuthMetrics;
  readonly fairness: PriorityAndFairness;
  readonly inFlight: InFlightCounter;
  readonly clock: Clock;
  readonly log: Logger;
  /** How many objects a list would have to look at. */
  readonly pipeline: { count(group: string, version: string, resource: string): number };
}

/** What a request has to pass before it is worked on: who asks, whether they may, and when there is a place for it. */
export class RequestFilters {
  readonly #options: RequestFilterOptions;
  constructor(parts: RequestFilterOptions) {
    this.#options = parts;
  }

  /** Who sends the request, and for whom: what is written down of it begins here. @throws StatusError `Unauthorized`, `Forbidden` */
  async authenticate(exchange: Exchange, work: InFlightRequest, target: RequestTarget, info: RequestInfo): Promise<Identity> {
    const { authn, authz, auditor, log, access, clock } = this.#options;
    const began = clock.monotonic();
    const known = await authenticate(authn, credentialsOf(exchange.headers, exchange.connection, target.path), (err) =>
      log.error({ err, auditId: work.auditId, path: target.path }, 'unable to authenticate the request'),
    );
    const sender = known instanceof StatusError ? known : known.identity;
    access?.observeAuthentication(sender instanceof StatusError ? undefined : sender.name, (clock.monotonic() - began) / 1000);
    if (sender instanceof StatusError) {
      auditor?.recordUnauthenticated(exchange, auditSubjectOf(exchange, work), attributesOf(info, anonymous), sender.code);
      throw sender;
    }
    if (exchange.connection.clientClass !== 'system') exchange.connection.raiseClass(clientClassOf(sender));
    if (auditor !== undefined) await this.#beginAudit(auditor, exchange, work, info, sender);
    if (!(known instanceof StatusError)) for (const [key, value] of Object.entries(known.annotations)) work.audit?.annotate(key, value);
    const taken = await impersonate(exchange.headers, sender, authz, attributesOf(info, sender));
    if (taken instanceof StatusError) throw taken;
    if (taken.identity !== sender) work.audit?.setImpersonatedUser(taken);
    return taken.identity;
  }

  /** Begins the trail of a request, when there is room for its events. */
  async #beginAudit(auditor: Auditor, exchange: Exchange, work: InFlightRequest, info: RequestInfo, sender: Identity): Promise<void> {
    await auditor.waitForBackPressure();
    work.audit = auditor.trail(auditSubjectOf(exchange, work), attributesOf(info, sender));
    if (work.audit !== undefined) await recordReceived(work.audit);
  }

  /** @throws StatusError `Forbidden` */
  async authorize({ audit }: InFlightRequest, info: RequestInfo, identity: Identity): Promise<void> {
    const asked = attributesOf(info, identity);
    const { authz, access, clock } = this.#options;
    const began = clock.monotonic();
    const decision = await runAuthorizers(authz, asked);
    access?.observeAuthorization(decision.decision, (clock.monotonic() - began) / 1000);
    if (audit !== undefined) annotateAuthorizationDecision(audit, decision);
    if (decision.decision !== 'allow') throw forbiddenError(asked, decision.reason);
  }

  /** Waits for a place among the requests that are worked on. @throws StatusError `TooManyRequests` */
  async admitToFlowControl(
    exchange: Exchange,
    work: InFlightRequest,
    target: RequestTarget,
    info: RequestInfo,
    identity: Identity,
  ): Promise<void> {
    const { fairness, inFlight, pipeline } = this.#options;
    const seats =
      info.kind === 'resource' && (info.verb === 'list' || info.verb === 'watch')
        ? estimateListWork(info.verb, target.query.first, () => pipeline.count(info.group, info.version, info.resource))
        : 1;
    const entered = fairness.acquire({ info, identity, seats, signal: () => exchange.signal });
    const place = entered instanceof Promise ? await entered : entered;
    const leave = inFlight.add(isReadOnly(exchange.method), place);
    work.release = leave;
    setFlowControlHeaders(exchange, place);
  }
}

/** So that administrators can tell why a request was treated as it was. */
function setFlowControlHeaders(exchange: Exchange, { flowSchemaUid: schemaUid, priorityLevelUid: levelUid }: ExecutionSeat): void {
  if (schemaUid !== '') exchange.setHeader('X-Kubernetes-PF-FlowSchema-UID', schemaUid);
  if (levelUid !== '') exchange.setHeader('X-Kubernetes-PF-PriorityLevel-UID', levelUid);
}

const auditSubjectOf = (exchange: Exchange, { auditId, receivedAt }: InFlightRequest): AuditSubject => ({
  auditID: auditId,
  requestURI: exchange.target,
  userAgent: exchange.headers['user-agent'],
  sourceIPs: sourceIPs(exchange),
  receivedAt,
});

const maxAuditIdLength = 64;

/** The client's own, or a new one. */
export function auditIdOf({ headers }: Exchange): string {
  const given = headers['audit-id'];
  return typeof given === 'string' && /^[\w-]+$/.test(given) ? given.slice(0, maxAuditIdLength) : randomUUID();
}
