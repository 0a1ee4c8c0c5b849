import { isStatus } from '@oarlock/api/status';

/** Returns true if the API server rejected a request because the namespace is terminating: a retry cannot succeed. */
export const isNamespaceTerminating = (error: unknown): boolean =>
  isStatus(error, 'Forbidden') && (error.status.details?.causes?.some(({ reason }) => reason === 'NamespaceTerminating') ?? false);
