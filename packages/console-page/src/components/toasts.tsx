import { text } from '../text/en.ts';
import type { ToastKind } from '../app/context.ts';

export interface Toast {
  readonly id: number;
  readonly kind: ToastKind;
  readonly message: string;
}

/** Messages that screen readers announce. Errors stay until they are closed. */
export function Toasts({ toasts, onClose }: { readonly toasts: readonly Toast[]; readonly onClose: (id: number) => void }) {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.map(({ id, kind, message }) => (
        <div key={id} class={`toast toast-${kind}`}>
          <span>{message}</span>
          <button type="button" class="quiet" onClick={() => onClose(id)}>
            {text.close}
          </button>
        </div>
      ))}
    </div>
  );
}
