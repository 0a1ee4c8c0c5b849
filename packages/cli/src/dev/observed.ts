import type { KubeObject } from '@oarlock/api/object';
import { differences, type Difference } from '@oarlock/kernel/differences';
import type { Cause } from '@oarlock/kernel/tracing';
import { isVerdict, type AdmissionPlugin, type AdmissionRequest, type Verdict } from '@oarlock/spi/admission';
import type { Authenticator, AuthnResult, Credentials } from '@oarlock/spi/authn';

/** What one admission plugin did to one request. */
export interface Step {
  readonly plugin: string;
  readonly phase: 'mutate' | 'validate';
  readonly ms: number;
  readonly changes: readonly Difference[];
  readonly warnings: readonly string[];
  readonly refused?: string;
  readonly failed?: string;
}

type Tell = (cause: Cause | undefined, step: Step) => void;

/** The same plugin; what it does to each request is told. */
export function observedAdmission(plugin: AdmissionPlugin, name: string, tell: Tell): AdmissionPlugin {
  const { mutate, validate, idle } = plugin;
  const watch = <T extends KubeObject | Verdict>(
    phase: Step['phase'],
    call: (request: AdmissionRequest) => T | Promise<T>,
    request: AdmissionRequest,
  ): T | Promise<T> => {
    const began = performance.now();
    const warnings: string[] = [];
    const told: AdmissionRequest = {
      ...request,
      warn: (message) => {
        warnings.push(message);
        request.warn(message);
      },
    };
    const end = (outcome: Pick<Step, 'refused' | 'failed'> & { readonly changes?: readonly Difference[] }) =>
      tell(request.cause, { plugin: name, phase, ms: performance.now() - began, changes: [], warnings, ...outcome });
    const done = (answer: T): T => {
      if (isVerdict(answer)) end(answer.allowed ? {} : { refused: answer.message });
      else end(answer === request.object ? {} : { changes: differences(request.object, answer) });
      return answer;
    };
    const fell = (error: unknown): never => {
      end({ failed: error instanceof Error ? error.message : String(error) });
      throw error;
    };
    try {
      const answer = call(told);
      return answer instanceof Promise ? answer.then(done, fell) : done(answer);
    } catch (error) {
      return fell(error);
    }
  };
  return {
    matches: plugin.matches,
    ...(idle && { idle: idle.bind(plugin) }),
    ...(mutate && { mutate: (request) => watch('mutate', mutate.bind(plugin), request) }),
    ...(validate && { validate: (request) => watch('validate', validate.bind(plugin), request) }),
  };
}

/** The same authenticator; whom it lets in or turns away is told. */
export function observedAuthn(plugin: Authenticator, tell: (path: string, result: AuthnResult, ms: number) => void): Authenticator {
  return {
    authenticate(credentials: Credentials) {
      const began = performance.now();
      const done = (result: AuthnResult): AuthnResult => {
        if (result.outcome !== 'abstained') tell(credentials.path, result, performance.now() - began);
        return result;
      };
      const result = plugin.authenticate(credentials);
      return result instanceof Promise ? result.then(done) : done(result);
    },
  };
}
