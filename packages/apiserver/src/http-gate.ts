import { randomUUID } from 'node:crypto';
import { StatusError } from '@oarlock/api/status';
import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import { anonymous, type Authenticator, type Identity } from '@oarlock/spi/authn';
import type { Authorizer } from '@oarlock/spi/authz';
import type { AccessMetrics } from './access-metrics.ts';
import { received, sourceIPs, type Auditor } from './audit/auditor.ts';
import type { AuditSubject, AuditTrail } from './audit/audit-trail.ts';
import { annotateDecision, decide, refusal } from './authorization.ts';
import type { Place, PriorityAndFairness } from './fairness/priority-and-fairness.ts';
import { seatsOf } from './fairness/seats.ts';
import { credentialsOf, identify } from './http-authentication.ts';
import type { Exchange } from './http-exchange.ts';
import { impersonated } from './http-impersonation.ts';
import type { InFlight } from './http-inflight.ts';
import type { Target } from './http-path.ts';
import { attributesOf, type RequestInfo } from './http-request-info.ts';
import type { Route } from './http-routes.ts';
import { isReadOnly } from './metrics.ts';

/** What is known of a request while it is worked on. */
export interface Work {
  readonly auditId: string;
  readonly receivedAt: number;
  audit?: AuditTrail | undefined;
  target?: Target;
  route?: Route;
  readonly warnings: string[];
  /** Gives back the place that was taken among the requests that are worked on. */
  leave?: () => void;
}

export interface GateParts {
  readonly authn: readonly Authenticator[];
  readonly authz: readonly Authorizer[];
  /** Absent where nobody wants to be told of requests. */
  readonly auditor?: Auditor | undefined;
  readonly access?: AccessMetrics;
  readonly fairness: PriorityAndFairness;
  readonly inFlight: InFlight;
  readonly clock: Clock;
  readonly log: Logger;
  /** How many objects a list would have to look at. */
  readonly pipeline: { count(group: string, version: string, resource: string): number };
}

/** What a request has to pass before it is worked on: who asks, whether they may, and when there is a place for it. */
export class Gate {
  readonly #parts: GateParts;
  constructor(parts: GateParts) {
    this.#parts = parts;
  }

  /** Who sends the request, and for whom: what is written down of it begins here. @throws StatusError `Unauthorized`, `Forbidden` */
  async identity(exchange: Exchange, work: Work, target: Target, info: RequestInfo): Promise<Identity> {
    const { authn, authz, auditor, log, access, clock } = this.#parts;
    const began = clock.monotonic();
    const known = await identify(authn, credentialsOf(exchange.headers, exchange.connection, target.path), (err) =>
      log.error({ err, auditId: work.auditId, path: target.path }, 'unable to authenticate the request'),
    );
    const sender = known instanceof StatusError ? known : known.identity;
    access?.authenticated(sender instanceof StatusError ? undefined : sender.name, (clock.monotonic() - began) / 1000);
    if (sender instanceof StatusError) {
      auditor?.unknown(exchange, subjectOf(exchange, work), attributesOf(info, anonymous), sender.code);
      throw sender;
    }
    if (auditor !== undefined) await this.#audited(auditor, exchange, work, info, sender);
    if (!(known instanceof StatusError)) for (const [key, value] of Object.entries(known.annotations)) work.audit?.annotate(key, value);
    const taken = await impersonated(exchange.headers, sender, authz, attributesOf(info, sender));
    if (taken instanceof StatusError) throw taken;
    if (taken.identity !== sender) work.audit?.impersonate(taken);
    return taken.identity;
  }

  /** Begins the trail of a request, when there is room for its events. */
  async #audited(auditor: Auditor, exchange: Exchange, work: Work, info: RequestInfo, sender: Identity): Promise<void> {
    await auditor.room();
    work.audit = auditor.trail(subjectOf(exchange, work), attributesOf(info, sender));
    if (work.audit !== undefined) await received(work.audit);
  }

  /** @throws StatusError `Forbidden` */
  async authorize({ audit }: Work, info: RequestInfo, identity: Identity): Promise<void> {
    const asked = attributesOf(info, identity);
    const { authz, access, clock } = this.#parts;
    const began = clock.monotonic();
    const decision = await decide(authz, asked);
    access?.authorized(decision.decision, (clock.monotonic() - began) / 1000);
    if (audit !== undefined) annotateDecision(audit, decision);
    if (decision.decision !== 'allow') throw refusal(asked, decision.because);
  }

  /** Waits for a place among the requests that are worked on. @throws StatusError `TooManyRequests` */
  async enter(exchange: Exchange, work: Work, target: Target, info: RequestInfo, identity: Identity): Promise<void> {
    const { fairness, inFlight, pipeline } = this.#parts;
    const seats =
      info.kind === 'resource' && (info.verb === 'list' || info.verb === 'watch')
        ? seatsOf(info.verb, target.query.first, () => pipeline.count(info.group, info.version, info.resource))
        : 1;
    const entered = fairness.enter({ info, identity, seats, signal: () => exchange.signal });
    const place = entered instanceof Promise ? await entered : entered;
    const leave = inFlight.enter(isReadOnly(exchange.method), place);
    work.leave = leave;
    showPlace(exchange, place);
  }
}

/** So that administrators can tell why a request was treated as it was. */
function showPlace(exchange: Exchange, { schemaUid, levelUid }: Place): void {
  if (schemaUid !== '') exchange.setHeader('X-Kubernetes-PF-FlowSchema-UID', schemaUid);
  if (levelUid !== '') exchange.setHeader('X-Kubernetes-PF-PriorityLevel-UID', levelUid);
}

const subjectOf = (exchange: Exchange, { auditId, receivedAt }: Work): AuditSubject => ({
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
