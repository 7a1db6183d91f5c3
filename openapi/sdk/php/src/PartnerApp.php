<?php

declare(strict_types=1);

namespace PartnerSdk;

use GuzzleHttp\Client;
use GuzzleHttp\HandlerStack;
use GuzzleHttp\Promise\PromiseInterface;
use Partner\Configuration;
use Psr\Http\Message\RequestInterface;
use Psr\Http\Message\ResponseInterface;

/** Your application with the clients linked to it. You name each link, for instance by the ID of your own record. */
final class PartnerApp
{
    /** A token is refreshed this many seconds before it expires, so that it does not expire during a request. */
    private const EARLY = 30;

    private readonly string $baseUrl;
    private readonly string $issuer;
    private readonly Client $anonymous;

    /**
     * @param string $baseUrl base URL of the API, without a path
     * @param string|null $issuer issuer and base URL of the authorize page; null: $baseUrl
     * @param callable|null $handler Guzzle handler that sends; null: Guzzle's choice
     */
    public function __construct(
        string $baseUrl,
        private readonly string $clientId,
        #[\SensitiveParameter] private readonly string $clientSecret,
        private readonly string $redirectUri,
        private readonly TokenStore $store,
        ?string $issuer = null,
        private readonly int $pauseMs = 500,
        private readonly mixed $handler = null,
    ) {
        $this->baseUrl = rtrim($baseUrl, '/');
        $this->issuer = rtrim($issuer ?? $baseUrl, '/');
        // All tries of an exchange end within the 60 seconds for which the service stores its response.
        $stack = HandlerStack::create($this->handler);
        $stack->push(new Retries(4, $this->pauseMs, 5_000));
        $this->anonymous = new Client(['handler' => $stack, 'timeout' => 10, 'http_errors' => false]);
    }

    /**
     * Begins a link: send the client's browser to "url", and keep "state" and "codeVerifier" in the session of this visitor.
     *
     * @return array{url: string, state: string, codeVerifier: string}
     */
    public function beginLink(string $scope): array
    {
        $state = bin2hex(random_bytes(16));
        $verifier = bin2hex(random_bytes(32));
        $query = http_build_query([
            'response_type' => 'code', 'client_id' => $this->clientId, 'redirect_uri' => $this->redirectUri, 'scope' => $scope, 'state' => $state,
            'code_challenge' => rtrim(strtr(base64_encode(hash('sha256', $verifier, true)), '+/', '-_'), '='), 'code_challenge_method' => 'S256',
        ]);
        return ['url' => "$this->issuer/api/oauth/authorize?$query", 'state' => $state, 'codeVerifier' => $verifier];
    }

    /**
     * Ends a link with the URL that the client returned to, and stores the tokens.
     *
     * @throws LinkRefusedException when the client refused or the URL does not belong to $state
     */
    public function finishLink(string $link, string $callback, string $state, string $codeVerifier): Tokens
    {
        parse_str((string) parse_url($callback, PHP_URL_QUERY), $back);
        if (!is_string($back['state'] ?? null) || !hash_equals($state, $back['state'])) {
            throw new LinkRefusedException('invalid_state', 'the callback does not belong to this visitor');
        }
        if (($back['iss'] ?? null) !== $this->issuer) {
            throw new LinkRefusedException('invalid_issuer', 'the callback is of another service');
        }
        if (!is_string($back['code'] ?? null)) {
            throw new LinkRefusedException((string) ($back['error'] ?? 'invalid_request'), (string) ($back['error_description'] ?? 'the callback has no code'));
        }
        $tokens = $this->exchange($back['code'], [
            'grant_type' => 'authorization_code', 'code' => $back['code'], 'redirect_uri' => $this->redirectUri, 'code_verifier' => $codeVerifier,
        ]);
        $this->store->update($link, fn (): Tokens => $tokens);
        return $tokens;
    }

    /** Ends a link at the service and forgets its tokens. */
    public function unlink(string $link): void
    {
        $this->store->update($link, function (?Tokens $tokens): ?Tokens {
            if ($tokens !== null) {
                $this->post('/api/oauth/revoke', [], ['token' => $tokens->refreshToken ?? $tokens->accessToken]);
            }
            return null;
        });
    }

    /** The configuration for the generated APIs: new WalletApi($app->client($link), $app->configuration()). */
    public function configuration(): Configuration
    {
        return (new Configuration())->setHost($this->baseUrl);
    }

    /** A Guzzle client that sends with the tokens of a link and retries. It throws LinkAgainException for a link that has ended. */
    public function client(string $link): Client
    {
        $stack = HandlerStack::create($this->handler);
        $stack->push(fn (callable $next): callable => function (RequestInterface $request, array $options) use ($next, $link): PromiseInterface {
            $tokens = $this->tokens($link);
            $send = fn (Tokens $with): PromiseInterface => $next($request->withHeader('Authorization', "Bearer $with->accessToken"), $options);
            // A request whose token was rejected had no effect.
            return $send($tokens)->then(fn (ResponseInterface $response): ResponseInterface|PromiseInterface => $response->getStatusCode() === 401
                ? $send($this->tokens($link, $tokens->accessToken)) : $response);
        });
        $stack->push(new Retries(pauseMs: $this->pauseMs));
        return new Client(['handler' => $stack, 'timeout' => 30]);
    }

    /** Valid tokens other than the rejected one. */
    private function tokens(string $link, ?string $rejected = null): Tokens
    {
        $tokens = $this->store->read($link) ?? throw new LinkAgainException($link, 'it has no tokens');
        if ($this->good($tokens, $rejected)) {
            return $tokens;
        }
        $reason = 'it has no tokens';
        return $this->store->update($link, function (?Tokens $tokens) use ($rejected, &$reason): ?Tokens {
            if ($tokens === null || $this->good($tokens, $rejected)) {
                return $tokens; // another process was first
            }
            if ($tokens->refreshToken === null) {
                $reason = 'the access token expired and offline_access was not granted';
                return null;
            }
            try {
                return $this->exchange($tokens->refreshToken, ['grant_type' => 'refresh_token', 'refresh_token' => $tokens->refreshToken]);
            } catch (TokenEndpointException $refused) {
                if ($refused->reason !== 'invalid_grant') {
                    throw $refused;
                }
                $reason = $refused->getMessage();
                return null;
            }
        }) ?? throw new LinkAgainException($link, $reason);
    }

    private function good(Tokens $tokens, ?string $rejected): bool
    {
        return $tokens->accessToken !== $rejected && $tokens->expiresAt - time() > ($tokens->refreshToken === null ? 0 : self::EARLY);
    }

    /**
     * Redeems a code or a refresh token, which can be used once. The Idempotency-Key is made of it: a retry within 60 seconds, after a lost
     * response or a crash before the tokens were stored, gets the same response.
     *
     * @param array<string, string> $grant
     */
    private function exchange(string $spent, array $grant): Tokens
    {
        $began = time();
        $got = $this->post('/api/oauth/token', ['Idempotency-Key' => hash('sha256', $spent)], $grant);
        return new Tokens($got['access_token'], $began + $got['expires_in'], $got['scope'], $got['refresh_token'] ?? null);
    }

    /**
     * @param array<string, string> $headers
     * @param array<string, string> $form
     * @return array<string, mixed>
     */
    private function post(string $path, array $headers, array $form): array
    {
        $response = $this->anonymous->post($this->baseUrl . $path, [
            'headers' => $headers, 'form_params' => $form + ['client_id' => $this->clientId, 'client_secret' => $this->clientSecret],
        ]);
        $content = json_decode((string) $response->getBody(), true);
        $content = is_array($content) ? $content : [];
        if ($response->getStatusCode() !== 200) {
            throw new TokenEndpointException($response->getStatusCode(), (string) ($content['error'] ?? 'unknown'), (string) ($content['error_description'] ?? 'the response is not one of this API'));
        }
        return $content;
    }
}
