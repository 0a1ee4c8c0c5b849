import { isObject } from '@oarlock/api/json';
import type { KubeObject } from '@oarlock/api/object';
import { failure } from '@oarlock/api/status';
import type { Clock } from '@oarlock/kernel/clock';
import type { PluginContext } from '@oarlock/kernel/plugin';
import type { Slot } from '@oarlock/kernel/slot';
import { Admission, allow, isVerdict, type AdmissionPlugin, type AdmissionRequest, type Verdict } from '@oarlock/spi/admission';
import { abstained, Authn, type Authenticator } from '@oarlock/spi/authn';
import { Authz, noOpinion, type Authorizer } from '@oarlock/spi/authz';

export interface GuardOptions {
  /** How long one answer may take, in milliseconds; undefined where somebody else sees to it. */
  readonly deadlineMs: number | undefined;
  /** What becomes of a request on which the plugin fails: it fails with 500 (of an authenticator: its sender is not known by it, and not anonymous), or goes on as if the plugin were not there. */
  readonly failurePolicy: 'Fail' | 'Ignore';
}
export const defaultDeadlineMs = 10_000; // as for webhooks

type Guard = (made: object, context: PluginContext, options: GuardOptions) => object;
const guards = new Map<symbol, Guard>([
  [Admission.token, (made, context, options) => guardAdmission(made as AdmissionPlugin, context, options)],
  [Authn.token, (made, context, options) => guardAuthn(made as Authenticator, context, options)],
  [Authz.token, (made, context, options) => guardAuthz(made as Authorizer, context, options)],
]);

/** Undefined for slots that no request waits for. */
export const guardOf = (slot: Slot<unknown>): Guard | undefined => guards.get(slot.token);

/** The plugin did not do what its slot promises. */
class PluginFault extends Error {
  override readonly name = 'PluginFault';
}

/** What a plugin answers in time. @throws what it throws, and PluginFault when it does not answer */
function inTime<T>(answer: T | Promise<T>, ms: number | undefined, clock: Clock): T | Promise<T> {
  if (!(answer instanceof Promise) || ms === undefined) return answer;
  return new Promise<T>((resolve, reject) => {
    const timer = clock.after(ms, () => reject(new PluginFault(`it did not answer within ${ms} ms`)));
    answer.then(resolve, reject).finally(() => timer.cancel());
  });
}

/** Calls a plugin; `otherwise` is what its fault means. */
function called<T>(call: () => T | Promise<T>, options: GuardOptions, clock: Clock, otherwise: (fault: unknown) => T): T | Promise<T> {
  try {
    const answer = inTime(call(), options.deadlineMs, clock);
    return answer instanceof Promise ? answer.catch(otherwise) : answer;
  } catch (fault) {
    return otherwise(fault);
  }
}

function messageOf(fault: unknown): string {
  const message = fault instanceof Error ? fault.message : String(fault);
  const frozen = /^Cannot (?:assign to read only property|add property .* object is not extensible|delete property)/.test(message);
  return frozen ? `${message}: what a plugin is given is frozen and shared, change a copy` : message;
}

/** As Kubernetes words the fault of a webhook. */
const failed = (kind: string, name: string, fault: unknown) => {
  const message = `Internal error occurred: ${kind} plugin ${JSON.stringify(name)} failed: ${messageOf(fault)}`;
  return failure('InternalError', message, { causes: [{ message }] });
};

function guardAdmission(plugin: AdmissionPlugin, { name, log, clock }: PluginContext, options: GuardOptions): AdmissionPlugin {
  const otherwise =
    <T>(request: AdmissionRequest, unchanged: T, phase: string) =>
    (fault: unknown): T => {
      log.error({ err: fault, phase, policy: options.failurePolicy }, 'the plugin failed on a request');
      if (options.failurePolicy === 'Fail') throw failed('admission', name, fault);
      request.annotate(`failed-open.admission.oarlock.dev/${name}`, messageOf(fault));
      return unchanged;
    };
  const { mutate, validate, idle } = plugin;
  return {
    matches: plugin.matches,
    ...(idle && { idle: idle.bind(plugin) }),
    ...(mutate && {
      mutate: (request) =>
        called<KubeObject | Verdict>(
          () => {
            const answer = mutate.call(plugin, request);
            return answer instanceof Promise ? answer.then((late) => sameKind(late, request)) : sameKind(answer, request);
          },
          options,
          clock,
          otherwise(request, request.object ?? allow, 'mutate'),
        ),
    }),
    ...(validate && {
      validate: (request) =>
        called<Verdict>(
          () => {
            const answer = validate.call(plugin, request);
            return answer instanceof Promise ? answer.then(aVerdict) : aVerdict(answer);
          },
          options,
          clock,
          otherwise(request, allow, 'validate'),
        ),
    }),
  };
}

function aVerdict(answer: Verdict): Verdict {
  if (isObject(answer) && typeof answer.allowed === 'boolean') return answer;
  throw new PluginFault(`validate returned ${shown(answer)}: return allow or deny(message)`);
}

function sameKind(answer: KubeObject | Verdict, { object }: AdmissionRequest): KubeObject | Verdict {
  if (answer === object) return answer;
  if (!isObject(answer)) throw new PluginFault(`mutate returned ${shown(answer)}: return the object to go on with, or deny(message)`);
  if (isVerdict(answer)) return answer.allowed && object !== undefined ? object : answer;
  const { apiVersion, kind } = answer;
  if (object !== undefined && (apiVersion !== object.apiVersion || kind !== object.kind))
    throw new PluginFault(`mutate turned ${object.apiVersion} ${object.kind} into ${shown(apiVersion)} ${shown(kind)}`);
  return answer;
}

const shown = (value: unknown): string => (typeof value === 'object' && value !== null ? 'an object' : String(value));

function guardAuthn(plugin: Authenticator, { name, log, clock }: PluginContext, options: GuardOptions): Authenticator {
  return {
    authenticate: (credentials) =>
      called(
        () => plugin.authenticate(credentials),
        options,
        clock,
        (fault) => {
          log.error({ err: fault, policy: options.failurePolicy }, 'the plugin failed on a request');
          if (options.failurePolicy === 'Fail') throw failed('authentication', name, fault);
          return abstained;
        },
      ),
  };
}

function guardAuthz(plugin: Authorizer, { name, log, clock }: PluginContext, options: GuardOptions): Authorizer {
  const { rulesFor } = plugin;
  const noted = (fault: unknown) => log.error({ err: fault, policy: options.failurePolicy }, 'the plugin failed on a request');
  return {
    authorize: (attributes) =>
      called(
        () => plugin.authorize(attributes),
        options,
        clock,
        (fault) => {
          noted(fault);
          if (options.failurePolicy === 'Fail') throw failed('authorization', name, fault);
          return noOpinion;
        },
      ),
    ...(rulesFor && {
      rulesFor: (identity, namespace) =>
        called(
          () => rulesFor.call(plugin, identity, namespace),
          options,
          clock,
          (fault) => {
            noted(fault);
            return { resources: [], paths: [], incomplete: `${name}: ${messageOf(fault)}` };
          },
        ),
    }),
  };
}
