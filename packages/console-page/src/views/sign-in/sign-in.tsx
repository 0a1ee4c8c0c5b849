import { useState } from 'preact/hooks';
import { errorText, type ApiClient } from '../../api/client.ts';
import { beginOidcSignIn, signInWithCredentials, type SessionInfo } from '../../app/session.ts';
import { keepPosition } from '../../app/sign-in-address.ts';
import { text } from '../../text/en.ts';

export interface SignInProps {
  readonly client: ApiClient;
  /** Why the user has to sign in. */
  readonly notice?: string;
  /** True if the console accepts sign-in links only. */
  readonly onlyLink: boolean;
  /** The name of the OIDC provider at which users can sign in. */
  readonly provider?: string;
  /** Where the user, whose session has ended, can sign out at the OIDC provider. */
  readonly logoutUrl?: string;
  readonly onSignedIn: (session: SessionInfo) => void;
}

/** Signs in at the OIDC provider, with a bearer token, or with the client certificate of the browser. */
export function SignIn({ client, notice, onlyLink, provider, logoutUrl, onSignedIn }: SignInProps) {
  const [message, setMessage] = useState(notice);
  const signIn = (event: Event, bearer?: string) => {
    event.preventDefault();
    signInWithCredentials(client, bearer).then(onSignedIn, (error: unknown) => setMessage(`${text.signIn.failed}: ${errorText(error)}`));
  };
  const goToProvider = () => {
    keepPosition(location.hash);
    beginOidcSignIn(client).then(
      (url) => location.assign(url),
      (error: unknown) => setMessage(`${text.signIn.failed}: ${errorText(error)}`),
    );
  };
  return (
    <main class="alone sign-in">
      <h1>
        {text.product} · {text.signIn.title}
      </h1>
      {message !== undefined && (
        <p class="error-message" role="alert">
          {message}
        </p>
      )}
      {logoutUrl !== undefined && (
        <p role="status">
          {text.signIn.signedOut} <a href={logoutUrl}>{text.signIn.logout(new URL(logoutUrl).host)}</a>
        </p>
      )}
      <p>{text.signIn.help}</p>
      {provider !== undefined && (
        <button type="button" class="primary" onClick={goToProvider}>
          {text.signIn.oidc(provider)}
        </button>
      )}
      {!onlyLink && <CredentialsForm onSubmit={signIn} />}
    </main>
  );
}

interface CredentialsFormProps {
  onSubmit(event: Event, token?: string): void;
}

function CredentialsForm({ onSubmit }: CredentialsFormProps) {
  const [token, setToken] = useState('');
  return (
    <>
      <form 
        onSubmit={(event) => {
          onSubmit(event, token.trim());
          setToken('');
        }}
      >
        <label>
          <span>{text.signIn.token}</span>
          <input
            type="password"
            autocomplete="off"
            required
            value={token}
            aria-describedby="token-help"
            onInput={({ currentTarget }) => setToken(currentTarget.value)}
          />
        </label>
        <p id="token-help" class="quiet-text">
          {text.signIn.tokenHelp}
        </p>
        <button type="submit" class="primary">
          {text.signIn.submit}
        </button>
      </form>
      <button type="button" onClick={(event) => onSubmit(event)}>
        {text.signIn.certificate}
      </button>
    </>
  );
}
