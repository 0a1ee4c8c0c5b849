import { fieldForbidden, invalid, notSupported, required } from '../../../field/field-error.ts';
import type { Lifecycle, LifecycleHandler, Probe } from '../../../generated/types/core-v1.ts';
import { isHttpHeaderName } from '../../../values/names.ts';
import { addInvalid, validateNonNegative, validatePortNumberOrName, validateNonEmpty, type Errors } from '../checks.ts';

type Handler = LifecycleHandler & Pick<Probe, 'grpc'>;
const handlers = ['exec', 'httpGet', 'tcpSocket', 'grpc', 'sleep'] as const;

function validateHandler(errors: Errors, path: string, action: Handler, grace: number | undefined): void {
  const handlerNames = handlers.filter((name) => action[name] !== undefined);
  if (handlerNames.length === 0) errors.push(required(path, 'must specify a handler type'));
  for (const name of handlerNames.slice(1)) errors.push(fieldForbidden(`${path}.${name}`, 'may not specify more than 1 handler type'));
  const at = `${path}.${handlerNames[0] ?? ''}`;
  switch (handlerNames[0]) {
    case 'exec':
      if ((action.exec?.command ?? []).length === 0) errors.push(required(`${at}.command`));
      break;
    case 'httpGet': {
      const { path: url, port, scheme, httpHeaders = [] } = action.httpGet ?? { port: 0 };
      validateNonEmpty(errors, `${at}.path`, url);
      validatePortNumberOrName(errors, `${at}.port`, port);
      if (scheme !== 'HTTP' && scheme !== 'HTTPS') errors.push(notSupported(`${at}.scheme`, scheme ?? '', ['HTTP', 'HTTPS']));
      for (const header of httpHeaders) addInvalid(errors, `${at}.httpHeaders`, header.name ?? '', isHttpHeaderName(header.name ?? ''));
      break;
    }
    case 'tcpSocket':
      validatePortNumberOrName(errors, `${at}.port`, action.tcpSocket?.port);
      break;
    case 'grpc':
      validatePortNumberOrName(errors, `${at}.port`, action.grpc?.port);
      break;
    case 'sleep': {
      const seconds = action.sleep?.seconds ?? 0;
      if (grace !== undefined && (seconds < 0 || seconds > grace))
        errors.push(invalid(at, seconds, `must be non-negative and less than terminationGracePeriodSeconds (${grace})`));
      break;
    }
    default:
  }
}

export function validateProbe(
  errors: Errors,
  path: string,
  {
    value,
    kind,
    grace,
  }: { readonly value: Probe | undefined; readonly kind: 'liveness' | 'readiness' | 'startup'; readonly grace: number | undefined },
): void {
  if (value === undefined) return;
  validateHandler(errors, path, value, grace);
  for (const key of ['initialDelaySeconds', 'timeoutSeconds', 'periodSeconds', 'successThreshold', 'failureThreshold'] as const)
    validateNonNegative(errors, `${path}.${key}`, value[key]);
  const own = value.terminationGracePeriodSeconds;
  if (own !== undefined && own <= 0) errors.push(invalid(`${path}.terminationGracePeriodSeconds`, own, 'must be greater than 0'));
  if (kind === 'readiness') {
    if (own !== undefined) errors.push(invalid(`${path}.terminationGracePeriodSeconds`, own, 'must not be set for readinessProbes'));
  } else if (value.successThreshold !== 1) errors.push(invalid(`${path}.successThreshold`, value.successThreshold ?? 0, 'must be 1'));
}

const signals = [
  'ABRT',
  'ALRM',
  'BUS',
  'CHLD',
  'CLD',
  'CONT',
  'FPE',
  'HUP',
  'ILL',
  'INT',
  'IO',
  'IOT',
  'KILL',
  'PIPE',
  'POLL',
  'PROF',
  'PWR',
]
  .concat(['QUIT', 'RTMAX', ...Array.from({ length: 14 }, (_, i) => `RTMAX-${i + 1}`)])
  .concat(['RTMIN', ...Array.from({ length: 15 }, (_, i) => `RTMIN+${i + 1}`)])
  .concat([
    'SEGV',
    'STKFLT',
    'STOP',
    'SYS',
    'TERM',
    'TRAP',
    'TSTP',
    'TTIN',
    'TTOU',
    'URG',
    'USR1',
    'USR2',
    'VTALRM',
    'WINCH',
    'XCPU',
    'XFSZ',
  ])
  .map((name) => `SIG${name}`);
const windowsSignals = ['SIGKILL', 'SIGTERM'];

/** What the rules of a lifecycle depend on: the grace period and the operating system of the pod. */
export interface LifecycleContext {
  readonly grace: number | undefined;
  readonly os: string | undefined;
}
export function validateLifecycle(errors: Errors, path: string, value: Lifecycle | undefined, { grace, os }: LifecycleContext): void {
  if (value?.postStart !== undefined) validateHandler(errors, `${path}.postStart`, value.postStart, grace);
  if (value?.preStop !== undefined) validateHandler(errors, `${path}.preStop`, value.preStop, grace);
  const signal = value?.stopSignal;
  if (signal === undefined) return;
  const supported = os === 'windows' ? windowsSignals : signals;
  if (os === undefined) errors.push(fieldForbidden(`${path}.stopSignal`, 'may not be set for containers with empty `spec.os.name`'));
  else if (!supported.includes(signal)) errors.push(notSupported(`${path}.stopSignal`, signal, supported));
}
