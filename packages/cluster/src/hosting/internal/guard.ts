import { isObject } from '@oarlock/api/json/json';
import type { KubeObject } from '@oarlock/api/object';
import { failure } from '@oarlock/api/status';
import { errorText } from '@oarlock/primitives/error-text';
import type { PluginContext } from '@oarlock/kernel/plugin';
import type { Slot } from '@oarlock/kernel/plugin';
import {
  Admission,
  allow,
  isAdmissionDecision,
  type AdmissionPlugin,
  type AdmissionRequest,
  type AdmissionDecision,
} from '@oarlock/spi/admission';
import { abstained, Authn, type Authenticator } from '@oarlock/spi/authn';
import { Authz, noOpinion, type Authorizer } from '@oarlock/spi/authz';
import type { CallLimits } from './call-limits.ts';
import { PluginFault, type GuardedCalls } from './guarded-calls.ts';

export interface GuardOptions {
  readonly calls: GuardedCalls;
  /** Empty if another component enforces the limits. */
  readonly limits: CallLimits;
  /**
   * The effect of a plugin failure on the request. `Fail`: the request fails with status 500; for an authenticator, the request never becomes
   * anonymous. `Ignore`: the request continues without the plugin.
   */
  readonly failurePolicy: 'Fail' | 'Ignore';
}

type Guard = (instance: object, context: PluginContext, options: GuardOptions) => object;
const guards = new Map<symbol, Guard>([
  [Admission.token, (instance, context, options) => guardAdmission(instance as AdmissionPlugin, context, options)],
  [Authn.token, (instance, context, options) => guardAuthn(instance as Authenticator, context, options)],
  [Authz.token, (instance, context, options) => guardAuthz(instance as Authorizer, context, options)],
]);

/** Returns the guard of a slot, or undefined if the slot's plugins do not handle requests. */
export const guardOf = (slot: Slot<unknown>): Guard | undefined => guards.get(slot.token);

/** Calls a plugin, and passes an error of the plugin to `onFault`. */
function callGuarded<T>(
  call: () => T | Promise<T>,
  {
    options: { calls, limits },
    method,
    onFault,
  }: { readonly options: GuardOptions; readonly method: string; readonly onFault: (fault: unknown) => T },
): T | Promise<T> {
  try {
    const answer = calls.call(limits[method], call);
    return answer instanceof Promise ? answer.catch(onFault) : answer;
  } catch (fault) {
    return onFault(fault);
  }
}

function messageOf(fault: unknown): string {
  const message = errorText(fault);
  const frozen = /^Cannot (?:assign to read only property|add property .* object is not extensible|delete property)/.test(message);
  return frozen ? `${message}: arguments of plugins are frozen and shared, change a copy` : message;
}

/** Returns the error that Kubernetes returns when a webhook fails. */
const pluginFailure = (kind: string, name: string, fault: unknown) => {
  const message = `Internal error occurred: ${kind} plugin ${JSON.stringify(name)} failed: ${messageOf(fault)}`;
  return failure('InternalError', message, { causes: [{ message }] });
};

function guardAdmission(plugin: AdmissionPlugin, { name, log }: PluginContext, options: GuardOptions): AdmissionPlugin {
  const onFault =
    <T>(request: AdmissionRequest, unchanged: T, phase: string) =>
    (fault: unknown): T => {
      log.error({ err: fault, phase, policy: options.failurePolicy }, 'the plugin failed on a request');
      if (options.failurePolicy === 'Fail') throw pluginFailure('admission', name, fault);
      request.annotate(`failed-open.admission.oarlock.dev/${name}`, messageOf(fault));
      return unchanged;
    };
  const { mutate, validate, isIdle: idle } = plugin;
  return {
    matches: plugin.matches,
    ...(idle && { isIdle: idle.bind(plugin) }),
    ...(mutate && {
      mutate: (request) =>
        callGuarded<KubeObject | AdmissionDecision>(
          () => {
            const answer = mutate.call(plugin, request);
            return answer instanceof Promise ? answer.then((late) => assertSameKind(late, request)) : assertSameKind(answer, request);
          },
          { options, method: 'mutate', onFault: onFault(request, request.object ?? allow, 'mutate') },
        ),
    }),
    ...(validate && {
      validate: (request) =>
        callGuarded<AdmissionDecision>(
          () => {
            const answer = validate.call(plugin, request);
            return answer instanceof Promise ? answer.then(assertDecision) : assertDecision(answer);
          },
          { options, method: 'validate', onFault: onFault(request, allow, 'validate') },
        ),
    }),
  };
}

function assertDecision(answer: AdmissionDecision): AdmissionDecision {
  if (isObject(answer) && typeof answer.allowed === 'boolean') return answer;
  throw new PluginFault(`validate returned ${describeValue(answer)}: return allow or deny(message)`);
}

function assertSameKind(answer: KubeObject | AdmissionDecision, { object }: AdmissionRequest): KubeObject | AdmissionDecision {
  if (answer === object) return answer;
  if (!isObject(answer)) throw new PluginFault(`mutate returned ${describeValue(answer)}: return the object, or deny(message)`);
  if (isAdmissionDecision(answer)) return answer.allowed && object !== undefined ? object : answer;
  const { apiVersion, kind } = answer;
  if (object !== undefined && (apiVersion !== object.apiVersion || kind !== object.kind))
    throw new PluginFault(`mutate turned ${object.apiVersion} ${object.kind} into ${describeValue(apiVersion)} ${describeValue(kind)}`);
  return answer;
}

const describeValue = (value: unknown): string => (typeof value === 'object' && value !== null ? 'an object' : String(value));

function guardAuthn(plugin: Authenticator, { name, log }: PluginContext, options: GuardOptions): Authenticator {
  return {
    authenticate: (credentials) =>
      callGuarded(() => plugin.authenticate(credentials), {
        options,
        method: 'authenticate',
        onFault: (fault) => {
          log.error({ err: fault, policy: options.failurePolicy }, 'the plugin failed on a request');
          if (options.failurePolicy === 'Fail') throw pluginFailure('authentication', name, fault);
          return abstained;
        },
      }),
  };
}

function guardAuthz(plugin: Authorizer, { name, log }: PluginContext, options: GuardOptions): Authorizer {
  const { rulesFor, postStartHook } = plugin;
  const logFailure = (fault: unknown) => log.error({ err: fault, policy: options.failurePolicy }, 'the plugin failed on a request');
  return {
    authorize: (attributes) =>
      callGuarded(() => plugin.authorize(attributes), {
        options,
        method: 'authorize',
        onFault: (fault) => {
          logFailure(fault);
          if (options.failurePolicy === 'Fail') throw pluginFailure('authorization', name, fault);
          return noOpinion;
        },
      }),
    ...(rulesFor && {
      rulesFor: (identity, namespace) =>
        callGuarded(() => rulesFor.call(plugin, identity, namespace), {
          options,
          method: 'rulesFor',
          onFault: (fault) => {
            logFailure(fault);
            return { resources: [], paths: [], incomplete: `${name}: ${messageOf(fault)}` };
          },
        }),
    }),
    ...(postStartHook && { postStartHook }),
  };
}
