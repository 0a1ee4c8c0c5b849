import { isStatus } from '@oarlock/api/status';

/** Returns true if the API server may have processed a request that failed with this error: a lost connection, a timeout or a server error. */
export const isOutcomeUnknown = (error: unknown): boolean => !isStatus(error) || error.code >= 500;
