import { withQuery } from './client.ts';

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
