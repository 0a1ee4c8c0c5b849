import { StatusError } from '@oarlock/api/status';

/** Runs `work`. @throws the error of `work` with a prefix in its message; a StatusError keeps its reason */
export async function withErrorPrefix<T>(prefix: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    if (!(cause instanceof Error)) throw cause;
    const message = `${prefix}: ${cause.message}`;
    throw cause instanceof StatusError ? new StatusError({ ...cause.status, message }, { cause }) : new Error(message, { cause });
  }
}
