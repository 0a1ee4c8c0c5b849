import { StatusError } from '@oarlock/api/status';
import { isStreamInProcess, type ApiHandler, type ApiRequest, type ApiVerb } from '@oarlock/spi/loopback';
import type { AdmissionStep, ExplainedRequest } from './admission-steps.ts';

/** The subresources whose requests can be tried as a dry run, and `''` for the object. */
const tried: ReadonlySet<string> = new Set([
  '',
  'status',
  'approval',
  'binding',
  'ephemeralcontainers',
  'eviction',
  'proxy',
  'resize',
  'scale',
  'token',
]);
/** The codes of requests that the API server rejects for their content, in contrast to those that conflict or are too many. */
const rejectionCodes: ReadonlySet<number> = new Set([400, 403, 422]);
/** Further codes of subresources: a pod that has a node already, and a disruption budget that permits no eviction. */
const codesOf: Readonly<Record<string, number>> = { binding: 409, eviction: 429 };

/** What the dry run needs beyond the attributes of admission. */
export interface TriedRequest extends Omit<ExplainedRequest, 'operation' | 'old' | 'object'> {
  readonly verb: ApiVerb;
  /** The object or the merge patch that the caller sends. */
  readonly body: unknown;
}

/**
 * Sends a write as a dry run in the name of its user, and returns the step in which the API server rejects it: by validation, or by its own
 * checks after the plugins, such as that of privilege escalation. Returns undefined if it does not.
 */
export async function dryRunStep(handler: ApiHandler, { verb, body, ...request }: TriedRequest): Promise<AdmissionStep | undefined> {
  if (!tried.has(request.subresource)) return undefined;
  const dryRun: ApiRequest = {
    ...request,
    verb,
    name: verb === 'create' && request.subresource === '' ? '' : request.name,
    query: { dryRun: 'All' },
    userAgent: 'oarlock-auth-why',
    ...(verb !== 'delete' && body !== undefined && { body }),
    ...(verb === 'patch' && { patchType: 'merge' }),
  };
  try {
    await handler.handle(dryRun);
    return undefined;
  } catch (error) {
    if (!(error instanceof StatusError)) throw error;
    const { code = 0, details } = error.status;
    const isRejection = rejectionCodes.has(code) || code === codesOf[request.subresource];
    if (!isRejection || isStreamInProcess(error)) return undefined;
    const causes = request.subresource === 'eviction' ? (details?.causes ?? []).map(({ message = '' }) => message) : [];
    return { plugin: 'apiserver', decision: 'deny', because: [error.message, ...causes].join(' ') };
  }
}
