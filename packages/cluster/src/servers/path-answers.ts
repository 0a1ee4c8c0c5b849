import { failure } from '@oarlock/api/status';
import type { PathResponse } from '@oarlock/spi/paths';

export const answer = (body: unknown): PathResponse => ({ code: 200, body });
export const badRequest = (message: string): PathResponse => ({ code: 400, body: failure('BadRequest', message).status });
export const conflict = (message: string): PathResponse => ({ code: 409, body: failure('Conflict', message).status });
