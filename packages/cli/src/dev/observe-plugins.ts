import type { KubeObject, ObjectKey } from '@oarlock/api/object';
import { isConfidential } from '@oarlock/apiserver/endpoints/request/confidential';
import type { Logger } from '@oarlock/primitives/logger';
import { errorText } from '@oarlock/primitives/error-text';
import { diffJson, type Difference } from '@oarlock/primitives/json-diff';
import { isAdmissionDecision, type AdmissionPlugin, type AdmissionRequest, type AdmissionDecision } from '@oarlock/spi/admission';
import { isStatus } from '@oarlock/api/status';
import type { Authenticator, AuthnResult, Credentials } from '@oarlock/spi/authn';
import type { Controller } from '@oarlock/spi/controller';

/** The effect of one call of an admission plugin on one request. */
export interface PluginCall {
  readonly plugin: string;
  readonly phase: 'mutate' | 'validate';
  readonly ms: number;
  readonly changes: readonly Difference[];
  readonly warnings: readonly string[];
  readonly rejected?: string;
  readonly failed?: string;
}

const hidden = '(hidden)';

/** Returns a call without the content of the object: names of top-level fields remain. Messages of plugins may quote the object. */
const withoutContent = ({ changes, warnings, rejected, failed, ...call }: PluginCall): PluginCall => ({
  ...call,
  changes: changes.map(({ path, before, after }) => ({
    path: path.slice(0, 1),
    ...(before !== undefined && { before: hidden }),
    ...(after !== undefined && { after: hidden }),
  })),
  warnings: warnings.map(() => hidden),
  ...(rejected !== undefined && { rejected: hidden }),
  ...(failed !== undefined && { failed: hidden }),
});

type PluginCallListener = (request: AdmissionRequest, step: PluginCall) => void;

/** Wraps an admission plugin and reports each of its calls, without the content of Secrets and other confidential objects. */
export function observeAdmission(plugin: AdmissionPlugin, name: string, onCall: PluginCallListener): AdmissionPlugin {
  const { mutate, validate, isIdle: idle } = plugin;
  const observe = <T extends KubeObject | AdmissionDecision>(
    phase: PluginCall['phase'],
    call: (request: AdmissionRequest) => T | Promise<T>,
    request: AdmissionRequest,
  ): T | Promise<T> => {
    const startedAt = performance.now();
    const warnings: string[] = [];
    const observed: AdmissionRequest = {
      ...request,
      warn: (message) => {
        warnings.push(message);
        request.warn(message);
      },
    };
    const confidential = isConfidential({ ...request.resource, subresource: request.subresource, namespace: request.namespace });
    const report = (result: Pick<PluginCall, 'rejected' | 'failed'> & { readonly changes?: readonly Difference[] }) => {
      const step: PluginCall = { plugin: name, phase, ms: performance.now() - startedAt, changes: [], warnings, ...result };
      onCall(request, confidential ? withoutContent(step) : step);
    };
    const reportResult = (result: T): T => {
      if (isAdmissionDecision(result)) report(result.allowed ? {} : { rejected: result.message });
      else report(result === request.object ? {} : { changes: diffJson(request.object, result) });
      return result;
    };
    const reportFailure = (error: unknown): never => {
      report({ failed: errorText(error) });
      throw error;
    };
    try {
      const result = call(observed);
      return result instanceof Promise ? result.then(reportResult, reportFailure) : reportResult(result);
    } catch (error) {
      return reportFailure(error);
    }
  };
  return {
    matches: plugin.matches,
    ...(idle && { isIdle: idle.bind(plugin) }),
    ...(mutate && { mutate: (request) => observe('mutate', mutate.bind(plugin), request) }),
    ...(validate && { validate: (request) => observe('validate', validate.bind(plugin), request) }),
  };
}

/** Wraps an authenticator and reports each request that it authenticates or rejects. */
export function observeAuthn(plugin: Authenticator, onResult: (path: string, result: AuthnResult, ms: number) => void): Authenticator {
  return {
    authenticate(credentials: Credentials) {
      const startedAt = performance.now();
      const report = (result: AuthnResult): AuthnResult => {
        if (result.outcome !== 'abstained') onResult(credentials.path, result, performance.now() - startedAt);
        return result;
      };
      const result = plugin.authenticate(credentials);
      return result instanceof Promise ? result.then(report) : report(result);
    },
  };
}

/**
 * Wraps a controller and reports each failed reconcile. Conflicts are not reported, because the next reconcile resolves them. `withLog` returns the log
 * that a reconcile receives.
 */
export function observeController(
  plugin: Controller,
  onFailure: (key: ObjectKey, error: unknown) => void,
  withLog: (log: Logger) => Logger = (log) => log,
): Controller {
  const { addDynamicWatches, concurrentReconciles, isDisabledByDefault, toleratesMissingKinds } = plugin;
  return {
    name: plugin.name,
    watches: plugin.watches,
    ...(concurrentReconciles !== undefined && { concurrentReconciles }),
    ...(isDisabledByDefault !== undefined && { isDisabledByDefault }),
    ...(toleratesMissingKinds !== undefined && { toleratesMissingKinds }),
    ...(addDynamicWatches && { addDynamicWatches: addDynamicWatches.bind(plugin) }),
    async reconcile(key, context) {
      try {
        return await plugin.reconcile(key, { ...context, log: withLog(context.log) });
      } catch (error) {
        if (!context.signal.aborted && !isStatus(error, 'Conflict')) onFailure(key, error);
        throw error;
      }
    },
  };
}
