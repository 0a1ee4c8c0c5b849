import { StatusError } from '@oarlock/api/status';

const reasonOf = (error: unknown): string | undefined => (error instanceof StatusError ? error.reason : undefined);
export const isNotFound = (error: unknown): boolean => reasonOf(error) === 'NotFound';
/** Somebody else was faster, with another version or with the same name. */
export const isConflict = (error: unknown): boolean => reasonOf(error) === 'Conflict' || reasonOf(error) === 'AlreadyExists';
