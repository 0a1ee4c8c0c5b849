import { errorText, isApiError, withQuery, type ApiClient } from './client.ts';

export interface ExecTarget {
  readonly namespace: string;
  readonly pod: string;
  readonly container: string;
  readonly command: readonly string[];
}

/** Returns the path of an exec request with a terminal. */
export function execPath({ namespace, pod, container, command }: ExecTarget): string {
  const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(pod)}/exec`;
  const base = withQuery(path, { container, stdin: true, stdout: true, tty: true });
  return `${base}${command.map((word) => `&command=${encodeURIComponent(word)}`).join('')}`;
}

/** Returns the message of the Status on the error channel; '' for success. */
export function statusMessage(bytes: Uint8Array): string {
  const text = new TextDecoder().decode(bytes);
  try {
    const { status, message = text } = JSON.parse(text) as { readonly status?: string; readonly message?: string };
    return status === 'Success' ? '' : message;
  } catch {
    return text;
  }
}

/**
 * Returns why the server rejects the request for a terminal: browsers do not report the status of a WebSocket that was not opened. Undefined if the server
 * rejects only that this second request contains no upgrade.
 */
export async function rejectionOf(client: ApiClient, target: ExecTarget): Promise<string | undefined> {
  try {
    await client.send(execPath(target));
    return undefined;
  } catch (error) {
    return isApiError(error, 400) ? undefined : errorText(error);
  }
}
