import { fieldForbidden, invalid, notSupported, required } from '../field-error.ts';
import type { Lifecycle, LifecycleHandler, Probe } from '../generated/types/core-v1.ts';
import { isHttpHeaderName } from '../names.ts';
import { invalidEach, nonNegative, portNumberOrName, requireText, type Errors } from './checks.ts';

type Handler = LifecycleHandler & Pick<Probe, 'grpc'>;
const handlers = ['exec', 'httpGet', 'tcpSocket', 'grpc', 'sleep'] as const;

function handler(errors: Errors, path: string, action: Handler, grace: number | undefined): void {
  const given = handlers.filter((name) => action[name] !== undefined);
  if (given.length === 0) errors.push(required(path, 'must specify a handler type'));
  for (const name of given.slice(1)) errors.push(fieldForbidden(`${path}.${name}`, 'may not specify more than 1 handler type'));
  const at = `${path}.${given[0] ?? ''}`;
  switch (given[0]) {
    case 'exec':
      if ((action.exec?.command ?? []).length === 0) errors.push(required(`${at}.command`));
      break;
    case 'httpGet': {
      const { path: url, port, scheme, httpHeaders = [] } = action.httpGet ?? { port: 0 };
      requireText(errors, `${at}.path`, url);
      portNumberOrName(errors, `${at}.port`, port);
      if (scheme !== 'HTTP' && scheme !== 'HTTPS') errors.push(notSupported(`${at}.scheme`, scheme ?? '', ['HTTP', 'HTTPS']));
      for (const header of httpHeaders) invalidEach(errors, `${at}.httpHeaders`, header.name ?? '', isHttpHeaderName(header.name ?? ''));
      break;
    }
    case 'tcpSocket':
      portNumberOrName(errors, `${at}.port`, action.tcpSocket?.port);
      break;
    case 'grpc':
      portNumberOrName(errors, `${at}.port`, action.grpc?.port);
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

export function probe(
  errors: Errors,
  path: string,
  value: Probe | undefined,
  kind: 'liveness' | 'readiness' | 'startup',
  grace: number | undefined,
): void {
  if (value === undefined) return;
  handler(errors, path, value, grace);
  for (const key of ['initialDelaySeconds', 'timeoutSeconds', 'periodSeconds', 'successThreshold', 'failureThreshold'] as const)
    nonNegative(errors, `${path}.${key}`, value[key]);
  const own = value.terminationGracePeriodSeconds;
  if (own !== undefined && own <= 0) errors.push(invalid(`${path}.terminationGracePeriodSeconds`, own, 'must be greater than 0'));
  if (kind === 'readiness') {
    if (own !== undefined) errors.push(invalid(`${path}.terminationGracePeriodSeconds`, own, 'must not be set for readinessProbes'));
  } else if (value.successThreshold !== 1) errors.push(invalid(`${path}.successThreshold`, value.successThreshold ?? 0, 'must be 1'));
}

export function lifecycle(errors: Errors, path: string, value: Lifecycle | undefined, grace: number | undefined): void {
  if (value?.postStart !== undefined) handler(errors, `${path}.postStart`, value.postStart, grace);
  if (value?.preStop !== undefined) handler(errors, `${path}.preStop`, value.preStop, grace);
}
