import { errorText } from '../api/client.ts';
import { text } from '../text/en.ts';
import { WhyLink } from './why-link.tsx';

/** Shows an error, with a button to try again. */
export function ErrorMessage({ error, title = text.errors.title, onRetry }: { readonly error: unknown; readonly title?: string; readonly onRetry?: () => void }) {
  return (
    <div class="error-message" role="alert">
      <strong>{title}</strong>
      <p>
        {errorText(error)} <WhyLink message={errorText(error)} />
      </p>
      {onRetry && (
        <button type="button" onClick={onRetry}>
          {text.errors.retry}
        </button>
      )}
    </div>
  );
}
